// Command pause holds the namespaces of a Pod. With a shared PID namespace it is also the first process there, and takes
// note of those that have ended.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for process := 1; process > 0; {
			process, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		}
	}
}
