//go:build !linux

package zk

import (
	"errors"
	"net"
)

// poller is missing here: each connection waits in a goroutine.
type poller struct{}

type watched struct{}

func newPoller(func([]uint64), func()) (*poller, error) { return nil, errors.ErrUnsupported }

func watchedOf(net.Conn) *watched { return nil }

func (*poller) wait(*watched, uint64) error { return errors.ErrUnsupported }

func (*poller) close() {}
