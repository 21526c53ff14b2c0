//go:build unix && !linux

package main

import "syscall"

// adopt does nothing: only Linux has such parents.
func adopt() error { return nil }

// ties keep a Ctrl-C for the test from reaching a server. Only on Linux is the server also killed with the keeper.
func ties() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
