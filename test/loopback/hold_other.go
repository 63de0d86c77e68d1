//go:build !linux

package loopback

import (
	"fmt"
	"net"
)

// holdPort finds that nobody listens at a port. Other systems let no second socket bind a port that is held.
func holdPort(port int) (release func(), err error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) //nolint:noctx // binding a port waits for nothing
	if err != nil {
		return nil, err
	}
	return func() {}, l.Close()
}
