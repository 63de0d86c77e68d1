package zk

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// errForeign is what a client sends that is not ZooKeeper's protocol.
var errForeign = errors.New("not ZooKeeper's protocol")

// isForeign reports whether a connection ended because of what its client sent, or because it sent nothing. A client
// that goes away before it says anything may be a load balancer that looks whether the port is open.
func isForeign(why error) bool {
	silent := errors.Is(why, errNoConnect) && errors.Is(why, os.ErrDeadlineExceeded)
	return silent || errors.Is(why, errForeign) || errors.Is(why, errParts)
}

// foreignPause is how long such connections are counted before they are told of in one line of the log.
const foreignPause = 10 * time.Second

// foreign counts connections that ended because of what their clients sent. However many there are, the log has a line
// each ten seconds. Safe for concurrent use.
type foreign struct {
	log hclog.Logger

	mu sync.Mutex
	// count is how many there were since the last line, address and why are of the newest. guarded by mu
	count   int
	address net.Addr
	why     error
}

// ended takes in a connection.
func (f *foreign) ended(address net.Addr, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count++; f.count == 1 {
		time.AfterFunc(foreignPause, f.tell)
	}
	f.address, f.why = address, why
}

func (f *foreign) tell() {
	f.mu.Lock()
	count, address, why := f.count, f.address, f.why
	f.count = 0
	f.mu.Unlock()
	if f.log != nil {
		f.log.Warn("connections to ZooKeeper's port were ended because of what they sent, or because they sent nothing",
			"connections", count, "newest", address.String(), "why", why)
	}
}
