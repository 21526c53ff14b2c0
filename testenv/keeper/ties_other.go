//go:build unix && !linux

package main

import "syscall"

// ties keep a Ctrl-C that is meant for the test from a server. Only Linux can also have it killed with the keeper.
func ties() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
