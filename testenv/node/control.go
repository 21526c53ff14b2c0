package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// request is what a client writes to the control socket, as JSON. One of the fields is set; all but import name a program,
// containerd or kubelet:
//
//	{"kill": "kubelet"}        ends it with SIGKILL
//	{"start": "kubelet"}       starts it again
//	{"freeze": "kubelet"}      stops it with SIGSTOP, as a node that cannot be reached
//	{"thaw": "kubelet"}        lets it go on
//	{"import": "images.tar"}   imports an archive of images
//
// The answer is {} or {"error": "..."}.
type request struct {
	Kill   string `json:"kill"`
	Start  string `json:"start"`
	Freeze string `json:"freeze"`
	Thaw   string `json:"thaw"`
	Import string `json:"import"`
}

type answer struct {
	Error string `json:"error,omitempty"`
}

type node struct {
	sync.Mutex
	programs *programs
	known    map[string]program
	runs     [2]*running
}

// place returns where a program's process is kept.
func (n *node) place(name string) (**running, error) {
	switch name {
	case "containerd":
		return &n.runs[0], nil
	case "kubelet":
		return &n.runs[1], nil
	}
	return nil, fmt.Errorf("there is no program %q", name)
}

func (n *node) start(name string) error {
	n.Lock()
	defer n.Unlock()
	place, err := n.place(name)
	if err != nil {
		return err
	}
	if *place != nil {
		return fmt.Errorf("%s is running already", name)
	}
	started, err := n.programs.start(name, n.known[name], false)
	if err != nil {
		return err
	}
	*place = started
	if name != "containerd" {
		return nil
	}
	return until(time.Minute, func() error {
		connection, err := net.Dial("unix", containerdSocket)
		if err != nil {
			return fmt.Errorf("containerd does not answer: %w; its log says last:\n%s", err, tail(n.known[name].log))
		}
		return connection.Close()
	})
}

func (n *node) kill(name string) error {
	n.Lock()
	defer n.Unlock()
	place, err := n.running(name)
	if err != nil {
		return err
	}
	n.programs.stop(*place)
	*place = nil
	return nil
}

func (n *node) signal(name string, which syscall.Signal) error {
	n.Lock()
	defer n.Unlock()
	place, err := n.running(name)
	if err != nil {
		return err
	}
	n.programs.signal(*place, which)
	return nil
}

// running returns the place of a program that runs.
func (n *node) running(name string) (**running, error) {
	place, err := n.place(name)
	if err == nil && *place == nil {
		return nil, fmt.Errorf("%s is not running", name)
	}
	return place, err
}

// importImages imports an archive in which images have names.
func (n *node) importImages(archive string) error {
	ctr, err := found("ctr")
	if err != nil {
		return err
	}
	log := filepath.Join(filepath.Dir(n.known["containerd"].log), "ctr.log")
	arguments := []string{"--address", containerdSocket, "--namespace", "k8s.io", "images", "import", archive}
	started, err := n.programs.start("ctr", program{ctr, arguments, log}, true)
	if err != nil {
		return err
	}
	if status := <-started.gone; status != "exit status 0" {
		return fmt.Errorf("%s cannot be imported (%s): %s", archive, status, tail(log))
	}
	return nil
}

// listen answers requests until the node ends.
func (n *node) listen(socket string) error {
	// That of an earlier run.
	_ = os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go n.answer(connection)
		}
	}()
	return nil
}

func (n *node) answer(connection net.Conn) {
	defer connection.Close()
	var asked request
	err := json.NewDecoder(connection).Decode(&asked)
	if err == nil {
		err = n.perform(asked)
	}
	var said answer
	if err != nil {
		said.Error = err.Error()
	}
	_ = json.NewEncoder(connection).Encode(said)
}

func (n *node) perform(asked request) error {
	switch {
	case asked.Kill != "":
		return n.kill(asked.Kill)
	case asked.Start != "":
		return n.start(asked.Start)
	case asked.Freeze != "":
		return n.signal(asked.Freeze, syscall.SIGSTOP)
	case asked.Thaw != "":
		return n.signal(asked.Thaw, syscall.SIGCONT)
	case asked.Import != "":
		return n.importImages(asked.Import)
	}
	return fmt.Errorf("a request names what to do: kill, start, freeze, thaw or import")
}
