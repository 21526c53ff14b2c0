package main

import (
	"encoding/json"
	"errors"
	"net"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
)

// conf is the configuration that containerd passes to the plugin.
type conf struct {
	types.NetConf
	// Socket is that of the node's network.
	Socket string `json:"socket"`
}

// joining is what the plugin asks the node: to add a Pod's network namespace, or to remove it.
type joining struct {
	ID string `json:"id"`
	// Namespace is the path of the network namespace; empty removes.
	Namespace string `json:"namespace,omitempty"`
}

type joined struct {
	Address string `json:"address,omitempty"`
	Error   string `json:"error,omitempty"`
}

// loopbackPlugin is the name of the plugin that containerd runs for the loopback device, at the same time as the one of the
// node's network. The latter sets up that device, too. The usual plugin of this name refuses a device that already has the
// address of the Service, so there is one that does nothing.
const loopbackPlugin = "loopback"

// plugin is this program when containerd runs it for a Pod. The node itself does the work.
func plugin() {
	does := skel.CNIFuncs{
		Add:   add,
		Del:   remove,
		Check: func(*skel.CmdArgs) error { return nil },
	}
	skel.PluginMainFuncs(does, version.All, "a network that only loops back")
}

func remove(args *skel.CmdArgs) error {
	configuration, err := read(args)
	if err != nil || configuration.Type == loopbackPlugin {
		return err
	}
	_, err = ask(configuration, joining{ID: args.ContainerID})
	return err
}

func add(args *skel.CmdArgs) error {
	configuration, err := read(args)
	if err != nil {
		return err
	}
	if configuration.Type == loopbackPlugin {
		return types.PrintResult(&current.Result{CNIVersion: current.ImplementedSpecVersion}, configuration.CNIVersion)
	}
	known, err := ask(configuration, joining{ID: args.ContainerID, Namespace: args.Netns})
	if err != nil {
		return err
	}
	address := net.ParseIP(known.Address)
	if address == nil {
		return errors.New("the node gives no address")
	}
	result := &current.Result{
		CNIVersion: current.ImplementedSpecVersion,
		Interfaces: []*current.Interface{{Name: args.IfName, Sandbox: args.Netns}},
		IPs:        []*current.IPConfig{{Interface: current.Int(0), Address: net.IPNet{IP: address, Mask: net.CIDRMask(8, 32)}}},
	}
	return types.PrintResult(result, configuration.CNIVersion)
}

func read(args *skel.CmdArgs) (conf, error) {
	var configuration conf
	err := json.Unmarshal(args.StdinData, &configuration)
	return configuration, err
}

// ask sends one request to the node.
func ask(configuration conf, what joining) (joined, error) {
	var said joined
	connection, err := net.Dial("unix", configuration.Socket)
	if err != nil {
		return said, err
	}
	defer connection.Close()
	if err := json.NewEncoder(connection).Encode(what); err != nil {
		return said, err
	}
	if err := json.NewDecoder(connection).Decode(&said); err != nil {
		return said, err
	}
	if said.Error != "" {
		return said, errors.New(said.Error)
	}
	return said, nil
}
