// Command keeper starts the servers of a test cluster, and sees to it that none of them outlives the test.
//
// It makes a folder for the servers' data, and reads requests from its standard input, one JSON object a line:
//
//	{"start": "etcd", "program": "/path/to/etcd", "arguments": ["--name=default"]}
//	{"stop": "etcd", "grace": 5}
//
// On its standard output it says, one JSON object a line, what has happened:
//
//	{"folder": "/tmp/pillion-testenv-123"}
//	{"started": "etcd", "log": "/tmp/pillion-testenv-123/logs/etcd.log"}
//	{"failed": "etcd", "reason": "no such file or directory"}
//	{"ended": "etcd", "reason": "exit status 1"}
//
// When its standard input closes, which the system does for a process that ends in whatever way, it kills the servers,
// removes the folder and ends. It does the same when its parent is gone. Where the keeper itself is killed, so are the
// servers; the folder is then removed by the next keeper.
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

// longest is more than any request has: arguments of servers are some kilobytes.
const longest = 1 << 20

type request struct {
	Start     string   `json:"start"`
	Program   string   `json:"program"`
	Arguments []string `json:"arguments"`
	Stop      string   `json:"stop"`
	// Seconds between the request to end and the end.
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

// end is a server's end: which one it was matters where one of the same name has been started since.
type end struct {
	name   string
	server *server
	reason string
}

type server struct {
	process *os.Process
	gone    chan struct{}
}

// signal reaches the server and what it has started: all of them are in a group of its own (see ties).
func (s *server) signal(which syscall.Signal) {
	select {
	case <-s.gone:
		// Its number may be somebody else's by now.
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
	// A server is killed with the thread that started it (see ties): that must be one that stays.
	runtime.LockOSThread()
	// Whoever is asked to stop is the test; when it does, standard input closes.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)

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

// requests reads standard input until it closes, or holds something that is no request.
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

// serve does what is asked for until there is nobody any more who asks.
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
		// What it has started ends with it. The group is still its own: the number has only just become free.
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		close(started.gone)
		k.ends <- end{name, started, reason}
	}()
}

// stop asks a server to end, and kills it when it has not after the time of grace. Its end is told as any other.
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

// close kills every server, and only then removes what they might still be writing to.
func (k *keeper) close() error {
	for _, running := range k.servers {
		running.signal(syscall.SIGKILL)
	}
	for _, running := range k.servers {
		<-running.gone
	}
	return os.RemoveAll(k.folder)
}

// say cannot fail: where nobody listens any more, standard input is closed, too.
func (k *keeper) say(what event) {
	_ = k.said.Encode(what)
}
