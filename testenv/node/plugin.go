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

// plugin is this program when containerd runs it for a Pod. The node itself does the work.
func plugin() {
	does := skel.CNIFuncs{
		Add:   add,
		Del:   func(args *skel.CmdArgs) error { _, err := ask(args, joining{ID: args.ContainerID}); return err },
		Check: func(*skel.CmdArgs) error { return nil },
	}
	skel.PluginMainFuncs(does, version.All, "a network that only loops back")
}

func add(args *skel.CmdArgs) error {
	known, err := ask(args, joining{ID: args.ContainerID, Namespace: args.Netns})
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
	var configuration conf
	if err := json.Unmarshal(args.StdinData, &configuration); err != nil {
		return err
	}
	return types.PrintResult(result, configuration.CNIVersion)
}

// ask sends one request to the node.
func ask(args *skel.CmdArgs, what joining) (joined, error) {
	var known conf
	var said joined
	if err := json.Unmarshal(args.StdinData, &known); err != nil {
		return said, err
	}
	connection, err := net.Dial("unix", known.Socket)
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
