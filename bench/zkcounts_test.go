package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// greet connects a client of ZooKeeper's protocol that requests a session. It is a bare descriptor: its end of the
// connection uses no memory of this process.
func greet(address string) (fd int, err error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return -1, err
	}
	fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	limit := syscall.NsecToTimeval(bound.Nanoseconds())
	b := make([]byte, 49) // a length, version, zxid, timeout, id, a password, and not read-only
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	binary.BigEndian.PutUint32(b[16:], 60_000)
	binary.BigEndian.PutUint32(b[28:], 16)
	err = errors.Join(
		syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit),
		syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}),
	)
	if err == nil {
		_, err = syscall.Write(fd, b)
	}
	var answer [41]byte
	if err == nil {
		err = readFull(fd, answer[:])
	}
	if err == nil && binary.BigEndian.Uint32(answer[8:]) == 0 {
		err = errors.New("no session was granted")
	}
	return fd, err
}

// readFull fills b.
func readFull(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := syscall.Read(fd, b)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		b = b[n:]
	}
	return nil
}

// memory returns what is live, with the stacks. A collection halves a stack that is too large.
func memory() uint64 {
	for range 5 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// portGoroutines returns the number of goroutines that run code of the ZooKeeper port.
func portGoroutines() (n int) {
	var profile strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1) // a Builder takes everything
	_, groups, _ := strings.Cut(profile.String(), "\n")
	for group := range strings.SplitSeq(groups, "\n\n") {
		if strings.Contains(group, "holdfast/zk.") {
			same := 0
			_, _ = fmt.Sscan(group, &same) // a group begins with the number of its goroutines
			n += same
		}
	}
	return n
}

// An idle client of ZooKeeper costs its node no goroutine and no buffer (Z10 idle connections), and once its connection
// is gone only what its session costs.
func TestIdleZooKeeperClientIsSmall(t *testing.T) {
	const n, mostConnection, mostSession = 2000, 4 << 10, 6 << 10
	c := newCluster(t)
	conns := make([]int, n+size)
	connect := func(i int) {
		var err error
		if conns[i], err = greet(c.zk[i%size]); err != nil {
			t.Errorf("client %d: %v", i, err)
		}
	}
	for i := range size {
		connect(n + i)
	}
	before := memory()
	var greeting sync.WaitGroup
	places := make(chan struct{}, 64)
	for i := range n {
		places <- struct{}{}
		greeting.Go(func() {
			connect(i)
			<-places
		})
	}
	greeting.Wait()
	c.await("clients that wait without a goroutine", func() float64 {
		return float64(n - portGoroutines())
	}, n*98/100) // the stacks and buffers of the others would count
	with := memory()
	if left := c.sum("holdfast_zookeeper_connections"); left != n+size {
		t.Fatalf("%.0f of %d connections are left: the others waited in goroutines until they were closed", left, n+size)
	}
	for _, fd := range conns {
		if fd >= 0 {
			_ = syscall.Close(fd)
		}
	}
	c.await("connections that end", func() float64 { return n + size - c.sum("holdfast_zookeeper_connections") }, n+size)
	after := memory()
	connection, session := (int64(with)-int64(after))/n, (int64(after)-int64(before))/n
	t.Logf("%d bytes for each of %d idle connections, and %d for its session at three nodes", connection, n, session)
	if connection < 1<<10 || connection > mostConnection {
		t.Errorf("the end of a connection frees %d bytes, want at least 1024, which it has, and at most %d", connection,
			mostConnection)
	}
	if session > mostSession {
		t.Errorf("the rest of a client uses %d bytes, want at most %d", session, mostSession)
	}
}
