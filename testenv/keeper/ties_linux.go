package main

import "syscall"

// ties bind a server to the keeper: it is killed when the keeper is, and not reached by a Ctrl-C meant for the test.
func ties() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
