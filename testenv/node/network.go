package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
)

// network connects Pods with the machine, without a bridge, a proxy or a rule of a firewall. The network namespace of a Pod
// has only its loopback device.
//
//   - The address of the Service "kubernetes" is one of that device's addresses. What connects there reaches the API server
//     of the machine's loopback, so that programs in Pods find it as they do everywhere.
//   - A Pod has an address of 127.64.0.0/10. What connects there from the machine reaches the same port of the Pod's
//     loopback device: probes, webhooks and tests do so.
type network struct {
	sync.Mutex
	listener net.Listener
	api      string
	service  string
	ports    []string
	pods     map[string]pod
}

// pod is what the network holds for a Pod.
type pod struct {
	// inside is the Pod's network namespace, which exists as long as this is open.
	inside    ns.NetNS
	listeners []net.Listener
}

// startNetwork writes the configuration of the plugin, and waits for its requests.
func startNetwork(o options) (*network, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(o.folder, "network.sock")
	// containerd sets up the loopback device with a plugin of the second name.
	for _, name := range []string{"pillion", loopbackPlugin} {
		link := filepath.Join(o.folder, "cni/bin", name)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return nil, err
		}
		if err := os.Symlink(self, link); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	list, err := json.Marshal(map[string]any{
		"cniVersion": "1.0.0", "name": "pillion", "plugins": []any{map[string]string{"type": "pillion", "socket": socket}},
	})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(o.folder, "cni/conf/10-pillion.conflist")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, list, 0o644); err != nil {
		return nil, err
	}
	// That of an earlier run.
	_ = os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	n := &network{
		listener: listener, api: o.api, service: o.service, ports: strings.Split(o.ports, ","), pods: map[string]pod{},
	}
	go n.serve()
	return n, nil
}

func (n *network) Close() error { return n.listener.Close() }

func (n *network) serve() {
	for {
		connection, err := n.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer connection.Close()
			var asked joining
			if err := json.NewDecoder(connection).Decode(&asked); err != nil {
				return
			}
			var said joined
			n.remove(asked.ID)
			if asked.Namespace != "" {
				address, err := n.add(asked)
				if err != nil {
					said.Error = err.Error()
				}
				said.Address = address
			}
			_ = json.NewEncoder(connection).Encode(said)
		}()
	}
}

func (n *network) remove(id string) {
	n.Lock()
	defer n.Unlock()
	gone, isKnown := n.pods[id]
	if !isKnown {
		return
	}
	for _, listener := range gone.listeners {
		_ = listener.Close()
	}
	_ = gone.inside.Close()
	delete(n.pods, id)
}

// add connects a Pod. It returns the Pod's address.
func (n *network) add(wanted joining) (string, error) {
	inside, err := ns.GetNS(wanted.Namespace)
	if err != nil {
		return "", err
	}
	var service net.Listener
	err = inside.Do(func(ns.NetNS) error {
		device, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(device); err != nil {
			return err
		}
		address, err := netlink.ParseAddr(n.service + "/32")
		if err != nil {
			return err
		}
		if err := netlink.AddrReplace(device, address); err != nil {
			return err
		}
		// A socket stays in the namespace in which it was made.
		service, err = net.Listen("tcp", net.JoinHostPort(n.service, "443"))
		return err
	})
	if err != nil {
		_ = inside.Close()
		return "", fmt.Errorf("the network of the Pod: %w", err)
	}
	address, listeners, err := n.listenForPod()
	if err != nil {
		return "", errors.Join(err, service.Close(), inside.Close())
	}
	go forward(service, func() (net.Conn, error) { return net.Dial("tcp", n.api) })
	for port, listener := range listeners {
		go forward(listener, func() (connection net.Conn, err error) {
			err = inside.Do(func(ns.NetNS) error {
				connection, err = net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
				return err
			})
			return connection, err
		})
	}
	n.Lock()
	defer n.Unlock()
	n.pods[wanted.ID] = pod{inside, append(slices.Collect(maps.Values(listeners)), service)}
	return address, nil
}

// listenForPod finds an address that no Pod has, whichever cluster it belongs to, and listens at all ports.
func (n *network) listenForPod() (string, map[string]net.Listener, error) {
	var last error
	for range 20 {
		address := fmt.Sprintf("127.%d.%d.%d", 64+rand.IntN(64), rand.IntN(256), 1+rand.IntN(254))
		listeners := map[string]net.Listener{}
		last = nil
		for _, port := range n.ports {
			listener, err := net.Listen("tcp", net.JoinHostPort(address, port))
			if err != nil {
				last = err
				break
			}
			listeners[port] = listener
		}
		if last == nil {
			return address, listeners, nil
		}
		for _, listener := range listeners {
			_ = listener.Close()
		}
	}
	return "", nil, fmt.Errorf("there is no free address for the Pod: %w", last)
}

// forward connects everything that arrives with a connection of its own.
func forward(listener net.Listener, connect func() (net.Conn, error)) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer from.Close()
			to, err := connect()
			if err != nil {
				return
			}
			defer to.Close()
			done := make(chan struct{}, 2)
			carry := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				if half, ok := to.(*net.TCPConn); ok {
					_ = half.CloseWrite()
				}
				done <- struct{}{}
			}
			go carry(to, from)
			carry(from, to)
			<-done
			<-done
		}()
	}
}
