package main

import "syscall"

// subreaper is PR_SET_CHILD_SUBREAPER of prctl(2).
const subreaper = 36

// adopt makes this process the parent of those that a server leaves behind, so that it can wait for their end.
func adopt() error {
	if _, _, failed := syscall.RawSyscall(syscall.SYS_PRCTL, subreaper, 1, 0); failed != 0 {
		return failed
	}
	return nil
}

// ties bind a server to the keeper: the server is killed with the keeper, and a Ctrl-C for the test does not reach it.
func ties() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
