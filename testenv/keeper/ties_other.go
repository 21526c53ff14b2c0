//go:build unix && !linux

package main

import "syscall"

// ties keep a Ctrl-C for the test from reaching a server. Only on Linux is the server also killed with the keeper.
func ties() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
