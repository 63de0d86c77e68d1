package loopback

import (
	"syscall"
)

// holdPort binds a port of the loopback that no socket has, and does not listen.
//
// SO_REUSEADDR is set afterwards, on purpose. Without it the system refuses a port that any other socket has, also one
// that is held here. With it the listeners of the test, which set it too as net.Listen does, can bind the port as well.
func holdPort(port int) (release func(), err error) {
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	release = func() { _ = syscall.Close(s) }
	err = syscall.Bind(s, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = syscall.SetsockoptInt(s, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}
