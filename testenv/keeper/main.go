// Command keeper starts the servers of a test cluster, and ensures that none of them outlives the test.
//
// It creates a folder for the servers' data, and reads requests from its standard input, one JSON object per line:
//
//	{"start": "etcd", "program": "/path/to/etcd", "arguments": ["--name=default"]}
//	{"stop": "etcd", "grace": 5}
//
// It reports events on its standard output, one JSON object per line:
//
//	{"folder": "/tmp/pillion-testenv-123"}
//	{"started": "etcd", "log": "/tmp/pillion-testenv-123/logs/etcd.log"}
//	{"failed": "etcd", "reason": "no such file or directory"}
//	{"ended": "etcd", "reason": "exit status 1"}
//
// When its standard input closes, which also happens whenever the test's process ends, the keeper kills the servers,
// removes the folder and ends. It does the same when its parent is gone. If the keeper itself is killed, the servers
// are killed too, and the next keeper removes the folder, and what the nodes of the cluster have left.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// longest is the maximum length of a request: arguments of servers are some kilobytes.
const longest = 1 << 20

type request struct {
	Start     string   `json:"start"`
	Program   string   `json:"program"`
	Arguments []string `json:"arguments"`
	Stop      string   `json:"stop"`
	// Seconds between SIGTERM and SIGKILL.
	Grace int `json:"grace"`
}

type event struct {
	Folder  string `json:"folder,omitempty"`
	Started string `json:"started,omitempty"`
	Failed  string `json:"failed,omitempty"`
	Ended   string `json:"ended,omitempty"`
	Log     string `json:"log,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// end reports the end of a server. It identifies the process, because another one of the same name may have started
// since.
type end struct {
	name   string
	server *server
	reason string
}

type server struct {
	process *os.Process
	gone    chan struct{}
}

// signal signals the server and all processes that it has started: they form a process group of their own (see ties).
func (s *server) signal(which syscall.Signal) {
	select {
	case <-s.gone:
		// Another process may have its number by now.
	default:
		_ = syscall.Kill(-s.process.Pid, which)
	}
}

type keeper struct {
	folder  string
	servers map[string]*server
	ends    chan end
	said    *json.Encoder
}

func main() {
	// A server is killed with the thread that started it (see ties), so this thread must stay.
	runtime.LockOSThread()
	// These signals are for the test; when the test ends, standard input closes.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)

	if err := adopt(); err != nil {
		fmt.Fprintln(os.Stderr, "keeper: processes that servers leave cannot be adopted:", err)
		os.Exit(1)
	}
	removeAbandoned()
	folder, err := makeFolder()
	if err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		os.Exit(1)
	}
	k := keeper{folder: folder, servers: map[string]*server{}, ends: make(chan end), said: json.NewEncoder(os.Stdout)}
	k.say(event{Folder: folder})
	k.serve(requests(), terminated)
	if err := k.close(); err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		os.Exit(1)
	}
}

// requests reads standard input until it closes, or contains an invalid request.
func requests() <-chan request {
	read := make(chan request)
	go func() {
		defer close(read)
		lines := bufio.NewScanner(os.Stdin)
		lines.Buffer(nil, longest)
		for lines.Scan() {
			var next request
			if err := json.Unmarshal(lines.Bytes(), &next); err != nil {
				fmt.Fprintln(os.Stderr, "keeper: not a request:", err)
				return
			}
			read <- next
		}
	}()
	return read
}

// serve performs requests until there can be no more.
func (k *keeper) serve(requests <-chan request, terminated <-chan os.Signal) {
	parent := os.Getppid()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case next, open := <-requests:
			switch {
			case !open:
				return
			case next.Start != "":
				k.start(next)
			case next.Stop != "":
				k.stop(next.Stop, time.Duration(next.Grace)*time.Second)
			}
		case ended := <-k.ends:
			k.ended(ended)
		case <-look.C:
			if os.Getppid() != parent {
				return
			}
		case <-terminated:
			return
		}
	}
}

func (k *keeper) start(wanted request) {
	name := wanted.Start
	if k.servers[name] != nil {
		k.say(event{Failed: name, Reason: "it is running already"})
		return
	}
	path := filepath.Join(k.folder, "logs", name+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		k.say(event{Failed: name, Reason: err.Error()})
		return
	}
	defer log.Close()
	command := exec.Command(wanted.Program, wanted.Arguments...)
	command.Dir = k.folder
	command.Stdout = log
	command.Stderr = log
	command.SysProcAttr = ties()
	if err := command.Start(); err != nil {
		k.say(event{Failed: name, Reason: err.Error()})
		return
	}
	started := &server{process: command.Process, gone: make(chan struct{})}
	k.servers[name] = started
	k.say(event{Started: name, Log: path})
	go func() {
		reason := "exit status 0"
		if err := command.Wait(); err != nil {
			reason = err.Error()
		}
		// Kills the processes that the server has started. The group still exists: its number has only just become free.
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		awaitGroup(command.Process.Pid)
		// A node leaves empty cgroups.
		if err := removeCgroups(cgroupOf(k.folder, name)); err != nil {
			fmt.Fprintln(os.Stderr, "keeper:", err)
		}
		close(started.gone)
		k.ends <- end{name, started, reason}
	}()
}

// awaitGroup waits until the processes of a group have ended, which a killed server has left to this process. The first
// process of a node is one of them: its end is that of all processes of the node. Until then they could make cgroups and
// write files.
func awaitGroup(group int) {
	for {
		if _, err := syscall.Wait4(-group, nil, 0, nil); err != nil && err != syscall.EINTR {
			return
		}
	}
}

// stop sends a server SIGTERM, and SIGKILL after the grace period. Its end is reported like any other.
func (k *keeper) stop(name string, grace time.Duration) {
	running := k.servers[name]
	if running == nil {
		k.say(event{Failed: name, Reason: "it is not running"})
		return
	}
	if grace > 0 {
		running.signal(syscall.SIGTERM)
	}
	time.AfterFunc(grace, func() { running.signal(syscall.SIGKILL) })
}

func (k *keeper) ended(ended end) {
	if k.servers[ended.name] == ended.server {
		delete(k.servers, ended.name)
	}
	k.say(event{Ended: ended.name, Reason: ended.reason})
}

// close kills every server, and only then removes the folder, to which they might still write.
func (k *keeper) close() error {
	for _, running := range k.servers {
		running.signal(syscall.SIGKILL)
	}
	for _, running := range k.servers {
		<-running.gone
	}
	return os.RemoveAll(k.folder)
}

// say ignores errors: if the output is closed, standard input is closed, too.
func (k *keeper) say(what event) {
	_ = k.said.Encode(what)
}
