package main

import "syscall"

// ties bind a server to the keeper: the server is killed with the keeper, and a Ctrl-C for the test does not reach it.
func ties() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
