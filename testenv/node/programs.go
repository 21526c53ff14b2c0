package main

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// program is how a program is started.
type program struct {
	path      string
	arguments []string
	log       string
}

// end tells how a program has ended.
type end struct {
	name   string
	status string
}

type running struct {
	name    string
	process int
	// isStopped says that somebody wanted the end.
	isStopped bool
	gone      chan string
}

// programs are the children of the node. The node is the first process of its namespace, so every process whose parent has
// ended is a child, too. So it does not wait for one child, but for any.
type programs struct {
	sync.Mutex
	byProcess  map[int]*running
	unexpected chan end
}

func newPrograms() *programs {
	p := &programs{byProcess: map[int]*running{}, unexpected: make(chan end, 4)}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			p.reap()
		}
	}()
	return p
}

// reap takes note of all children that have ended.
func (p *programs) reap() {
	for {
		// While a child starts, its number is not known yet.
		p.Lock()
		var status syscall.WaitStatus
		process, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		ended := p.byProcess[process]
		delete(p.byProcess, process)
		p.Unlock()
		if err == syscall.EINTR {
			continue
		}
		if process <= 0 {
			return
		}
		if ended == nil {
			continue
		}
		said := fmt.Sprintf("exit status %d", status.ExitStatus())
		if status.Signaled() {
			said = "signal " + status.Signal().String()
		}
		ended.gone <- said
		if !ended.isStopped {
			p.unexpected <- end{ended.name, said}
		}
	}
}

// start starts a program. If isBrief, its end is expected.
func (p *programs) start(name string, what program, isBrief bool) (*running, error) {
	log, err := os.OpenFile(what.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer nothing.Close()
	p.Lock()
	defer p.Unlock()
	process, err := syscall.ForkExec(what.path, append([]string{what.path}, what.arguments...), &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{nothing.Fd(), log.Fd(), log.Fd()},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what.path, err)
	}
	started := &running{name: name, process: process, isStopped: isBrief, gone: make(chan string, 1)}
	p.byProcess[process] = started
	return started, nil
}

// signal sends a signal to a program that may have ended.
func (p *programs) signal(to *running, which syscall.Signal) {
	p.Lock()
	defer p.Unlock()
	if p.byProcess[to.process] == to {
		_ = syscall.Kill(to.process, which)
	}
}

// stop ends a program without letting it finish anything, and waits for its end.
func (p *programs) stop(which *running) {
	p.Lock()
	which.isStopped = true
	p.Unlock()
	p.signal(which, syscall.SIGKILL)
	<-which.gone
}
