package transport

import (
	"net"
	"runtime"
	"testing"

	holdfastv1 "holdfast/proto/holdfast/v1"
)

// served returns the address of a client port on loopback.
func served(b *testing.B) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := NewClientServer(ClientConfig{}, &fakeService{}, fakeCluster{})
	done := make(chan error, 1)
	go func() { done <- s.Serve(listener) }()
	b.Cleanup(func() {
		if err := s.Stop(b.Context()); err != nil {
			b.Log(err)
		}
		<-done
	})
	return listener.Addr().String()
}

func connect(b *testing.B, address string) holdfastv1.SessionService_ConnectClient {
	b.Helper()
	conn, err := DialClient(address, DialOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	stream, err := holdfastv1.NewSessionServiceClient(conn).Connect(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return stream
}

func touchOnce(b *testing.B, stream holdfastv1.SessionService_ConnectClient, seq uint64) {
	b.Helper()
	if err := stream.Send(touchMessage(seq)); err != nil {
		b.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkTouch is one keep-alive and its answer over loopback, client and server in one process.
func BenchmarkTouch(b *testing.B) {
	stream := connect(b, served(b))
	b.ReportAllocs()
	for seq := uint64(1); b.Loop(); seq++ {
		touchOnce(b, stream, seq)
	}
}

// BenchmarkIdleConnection reports what one idle connection with one stream costs, client and server together.
func BenchmarkIdleConnection(b *testing.B) {
	const connections = 1000
	for b.Loop() {
		address := served(b)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range connections {
			touchOnce(b, connect(b, address), 1)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse)/connections, "B/connection")
	}
}
