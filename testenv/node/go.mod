// A node of the test cluster. It has its own module, because it builds only on Linux, and shares nothing with the servers.
module pillion.dev/testenv/node

go 1.25.0

tool github.com/containernetworking/plugins/plugins/main/loopback

require (
	github.com/containernetworking/cni v1.3.0
	github.com/containernetworking/plugins v1.9.1
	github.com/vishvananda/netlink v1.3.1
	golang.org/x/sys v0.38.0
)

require (
	github.com/pkg/errors v0.9.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
)
