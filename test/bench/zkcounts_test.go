package main

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"
)

// greet connects a client of ZooKeeper's protocol that asks for a session, as lean as can be.
func greet(address string) (net.Conn, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 49) // a length, version, zxid, timeout, id, a password, and not read-only
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	binary.BigEndian.PutUint32(b[16:], 30_000)
	binary.BigEndian.PutUint32(b[28:], 16)
	var answer [41]byte
	_ = conn.SetDeadline(time.Now().Add(bound)) // an error comes again with the write
	if _, err = conn.Write(b); err == nil {
		_, err = io.ReadFull(conn, answer[:])
	}
	if err == nil && binary.BigEndian.Uint32(answer[8:]) == 0 {
		err = errors.New("no session was given")
	}
	return conn, err
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

// An idle client of ZooKeeper costs a waiting goroutine without a buffer, the session at three nodes with its place
// among the newest changes, and here the client's end of the connection too (Z10). Half of it is the goroutine's stack
// of 4 KB: with a deeper wait it is 8 KB.
func TestIdleZooKeeperClientIsSmall(t *testing.T) {
	const n, most = 2000, 10 << 10
	c := newCluster(t)
	conns := make([]net.Conn, n+size)
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
	each := (memory() - before) / n
	for _, conn := range conns {
		if conn != nil {
			_ = conn.Close()
		}
	}
	t.Logf("%d bytes for each of %d clients, with its end of the connection", each, n)
	if each > most {
		t.Errorf("an idle client takes %d bytes, want at most %d", each, most)
	}
}
