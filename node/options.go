package node

import (
	"github.com/hashicorp/go-hclog"

	"holdfast/node/health"
	"holdfast/node/ports"
)

// Options are what a program gives to a node besides its configuration.
type Options struct {
	// Logger may not be nil.
	Logger hclog.Logger
	// Audit gets the lines about actions of operators when there is no audit_file. It should write lines of the level
	// Info, whatever Logger writes. nil is Logger.
	Audit hclog.Logger
	// Version is shown by GetStatus.
	Version string
	// Memory is the limit of the process's memory. The zero value is none.
	Memory health.Memory
	// Console, when set, makes what serves /ui/ on the HTTP port.
	Console func(ports.ConsoleHost) ports.Console
	// Origins says where the values of settings come from, for the console: see [config.Origins].
	Origins map[string]string

	// Platform and Observers are for tests and simulations: Platform replaces what the node stands on,
	// Observers watches what the node does. Zero values give a node on the machine itself.
	Platform  Platform
	Observers Observers
}
