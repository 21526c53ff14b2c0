// Command node is one node of a test cluster: containerd, kubelet, and a network that only loops back. It needs root, and
// neither a container engine nor a registry nor a network.
//
// It starts itself again in a mount and a PID namespace of its own, and there runs everything else. When that process
// ends, the kernel ends all containers and shims with it, and removes all mounts. What remains are folders of cgroups,
// which the keeper removes: they bear the name of the keeper's folder and that of the node.
//
// The node reads requests from a socket in its folder (see control.go). containerd runs this program as its network
// plugin (see plugin.go).
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
)

// inside marks the process in the namespaces.
const inside = "PILLION_NODE_INSIDE"

// inContainer is the remedy where root may not do what root of a machine may.
const inContainer = "in a container, a node needs \"--privileged\""

// options are the flags.
type options struct {
	// folder has everything that the node writes. It outlives the node, as a disk does.
	folder string
	// logs is the folder of the logs of kubelet and containerd.
	logs string
	// name of the node and its only address, one of 127.0.0.0/8. kubelet takes the address from the name.
	name string
	// cgroup is the name of the node's cgroup.
	cgroup     string
	kubelet    string
	kubeconfig string
	// api is the address of the API server, as in 127.0.0.1:20000.
	api string
	// service is the address of the Service "kubernetes", which Pods use instead.
	service string
	// ports of Pods that can be reached from the machine.
	ports string
	// images are files that containerd imports before kubelet starts.
	images string
	gates  string
	// check only tells whether this machine can have nodes.
	check bool
}

func main() {
	if os.Getenv("CNI_COMMAND") != "" {
		plugin()
		return
	}
	var o options
	flag.StringVar(&o.folder, "folder", "", "")
	flag.StringVar(&o.logs, "logs", "", "")
	flag.StringVar(&o.name, "name", "", "")
	flag.StringVar(&o.cgroup, "cgroup", "", "")
	flag.StringVar(&o.kubelet, "kubelet", "", "")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "")
	flag.StringVar(&o.api, "api", "", "")
	flag.StringVar(&o.service, "service", "", "")
	flag.StringVar(&o.ports, "ports", "", "")
	flag.StringVar(&o.images, "images", "", "")
	flag.StringVar(&o.gates, "gates", "", "")
	flag.BoolVar(&o.check, "check", false, "")
	flag.Parse()
	run := outsideRun
	switch {
	case os.Getenv(inside) != "" && o.check:
		run = tryRun
	case os.Getenv(inside) != "":
		run = insideRun
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}

// outsideRun runs the node in its namespaces, until it ends or this process is told to end.
func outsideRun(o options) error {
	if err := check(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	node := exec.Command(self, os.Args[1:]...)
	node.Env = append(os.Environ(), inside+"=1")
	node.Stdout, node.Stderr = os.Stdout, os.Stderr
	// The process ends with the thread that started it.
	runtime.LockOSThread()
	node.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := node.Start(); err != nil {
		return fmt.Errorf("a process in namespaces of its own cannot be started: %w; %s", err, inContainer)
	}
	go func() {
		<-ended
		_ = node.Process.Kill()
	}()
	// The kernel reports the end when every process in the namespace has ended.
	return node.Wait()
}

// check tells what the machine lacks, and what to do.
func check() error {
	if os.Geteuid() != 0 {
		return errors.New("a node needs root: run the tests as root, for example with \"sudo --preserve-env=HOME,PATH make test-node\"")
	}
	var missing []string
	for _, program := range []string{"containerd", "ctr", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing: %s; \"tools/setup node\" installs containerd and runc", strings.Join(missing, ", "))
	}
	return nil
}
