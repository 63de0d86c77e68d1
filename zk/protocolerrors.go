package zk

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/zk/frames"
	"holdfast/zk/jute"
)

// isProtocolError reports whether a connection ended because of its client's bytes, or because the client sent none in
// time. A client that leaves before it sends anything may be a load balancer that checks whether the port is open.
func isProtocolError(why error) bool {
	silent := errors.Is(why, errNoConnect) && errors.Is(why, os.ErrDeadlineExceeded)
	return silent || errors.Is(why, jute.ErrProtocol) || errors.Is(why, frames.ErrPartial)
}

// protocolErrorPause is how long protocol errors are counted before one line logs them.
const protocolErrorPause = 10 * time.Second

// protocolErrors counts connections that ended with a protocol error. However many there are, the log gets one line
// each ten seconds. Safe for concurrent use.
type protocolErrors struct {
	log hclog.Logger

	mu sync.Mutex
	// count is the number of connections that ended since the last line; address and why belong to the newest. guarded
	// by mu
	count   int
	address net.Addr
	why     error
}

// add counts a connection.
func (p *protocolErrors) add(address net.Addr, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count++; p.count == 1 {
		time.AfterFunc(protocolErrorPause, p.write)
	}
	p.address, p.why = address, why
}

// write writes the line.
func (p *protocolErrors) write() {
	p.mu.Lock()
	count, address, why := p.count, p.address, p.why
	p.count = 0
	p.mu.Unlock()
	if p.log != nil {
		p.log.Warn("connections to ZooKeeper's port were ended because of what they sent, or because they sent nothing",
			"connections", count, "newest", address.String(), "why", why)
	}
}
