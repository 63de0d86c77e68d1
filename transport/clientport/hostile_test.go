package clientport

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"holdfast/transport/internal/porttest"
)

// hostile is a client of HTTP/2 frames: it can do what no gRPC library does, such as reading nothing.
type hostile struct {
	t      *testing.T
	conn   net.Conn
	framer *http2.Framer
	mu     sync.Mutex // serializes writes
	next   uint32
}

// newHostile opens a connection, and reads only the server's first frames: its settings, and the window of the
// connection.
func newHostile(t *testing.T, network *porttest.Pipes, settings ...http2.Setting) *hostile {
	t.Helper()
	conn, err := network.Dial(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{t: t, conn: conn, framer: http2.NewFramer(conn, conn), next: 1}
	t.Cleanup(func() { conn.Close() })
	for range 2 {
		if _, err := h.framer.ReadFrame(); err != nil {
			t.Fatalf("reading the server's settings: %v", err)
		}
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := h.framer.WriteSettings(settings...); err != nil {
		t.Fatal(err)
	}
	return h
}

// reading opens a hostile connection that reads all frames. With a window of 0 the server sends no answers.
func reading(t *testing.T, network *porttest.Pipes, settings ...http2.Setting) *hostile {
	t.Helper()
	h := newHostile(t, network, settings...)
	go h.drain()
	return h
}

// call begins a call and returns its stream.
func (h *hostile) call(method string) uint32 {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "node"}, {
			"content-type",
			"application/grpc",
		}, {"te", "trailers"},
	} {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			h.t.Fatal(err)
		}
	}
	stream := h.next
	h.next += 2
	if err := h.framer.WriteHeaders(
		http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true},
	); err != nil {
		h.t.Logf("the connection has ended: %v", err)
	}
	return stream
}

// say sends a message.
func (h *hostile) say(stream uint32, m proto.Message) error {
	h.t.Helper()
	return h.bytes(stream, framed(h.t, m))
}

// framed returns a message as gRPC sends it.
func framed(t *testing.T, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(data))), data...)
}

// ask makes a unary call.
func (h *hostile) ask(method string, m proto.Message) error {
	stream := h.call(method)
	if err := h.say(stream, m); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.framer.WriteData(stream, true, nil)
}

// cancel cancels a call.
func (h *hostile) cancel(stream uint32) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.framer.WriteRSTStream(stream, http2.ErrCodeCancel); err != nil {
		h.t.Error(err)
	}
}

// bytes sends bytes on a stream, which may be part of a message.
func (h *hostile) bytes(stream uint32, data []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(data) > 0 {
		n := min(len(data), 16<<10)
		if err := h.framer.WriteData(stream, false, data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// drain reads all frames, and answers pings, until the connection ends.
func (h *hostile) drain() {
	for {
		f, err := h.framer.ReadFrame()
		if err != nil {
			return
		}
		if ping, ok := f.(*http2.PingFrame); ok && !ping.IsAck() {
			h.mu.Lock()
			_ = h.framer.WritePing(true, ping.Data) // if it fails, so does the next read
			h.mu.Unlock()
		}
	}
}
