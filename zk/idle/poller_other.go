//go:build !linux

package idle

import (
	"errors"
	"net"
)

// poller is only available on Linux. Elsewhere each connection waits in a goroutine.
type poller struct{}

type socket struct{}

func newPoller(func([]uint64), func()) (*poller, error) { return nil, errors.ErrUnsupported }

func socketOf(net.Conn) *socket { return nil }

func (*poller) wait(*socket, uint64) error { return errors.ErrUnsupported }

func (*poller) close() {}
