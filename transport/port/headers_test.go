package port

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
)

// A call whose headers have more than 16 KiB is refused. The port says so in its settings, and holds a client to it that
// does not care for them.
func TestHeadersOfACallAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := porttest.NewPipes()
		p := New(Config{Logger: hclog.NewNullLogger(), Limits: Limits{MessageBytes: 1 << 20, StreamsPerConnection: 8}})
		served := make(chan error, 1)
		go func() { served <- p.Serve(network) }()
		conn, err := network.Dial(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		framer := http2.NewFramer(conn, conn)
		told, read := map[uint32]string{}, make(chan error, 1)
		go func() {
			for {
				f, err := framer.ReadFrame()
				if err != nil {
					read <- err
					return
				}
				switch f := f.(type) {
				case *http2.SettingsFrame:
					if n, ok := f.Value(http2.SettingMaxHeaderListSize); ok {
						told[0] = fmt.Sprint(n)
					}
				case *http2.HeadersFrame:
					told[f.StreamID] = "answered"
				case *http2.RSTStreamFrame:
					if told[f.StreamID] == "" {
						told[f.StreamID] = f.ErrCode.String()
					}
				}
			}
		}()
		if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
			t.Fatal(err)
		}
		if err := framer.WriteSettings(); err != nil {
			t.Fatal(err)
		}
		call := func(stream uint32, size int) {
			t.Helper()
			var block bytes.Buffer
			encoder := hpack.NewEncoder(&block)
			all := []hpack.HeaderField{
				{Name: ":method", Value: "POST"},
				{Name: ":scheme", Value: "http"},
				{Name: ":path", Value: "/no.Service/Call"},
				{Name: ":authority", Value: "node"},
				{Name: "content-type", Value: "application/grpc"},
				{Name: "te", Value: "trailers"},
				{Name: "padding"},
			}
			for _, f := range all {
				size -= int(f.Size())
			}
			all[len(all)-1].Value = strings.Repeat("a", size)
			for _, f := range all {
				if err := encoder.WriteField(f); err != nil {
					t.Fatal(err)
				}
			}
			if err := framer.WriteHeaders(http2.HeadersFrameParam{
				StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true,
			}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		call(1, maxHeaderBytes)
		call(3, maxHeaderBytes+1)
		call(5, 1<<10)
		for stream, want := range map[uint32]string{
			0: "16384", 1: "answered", 3: http2.ErrCodeFrameSize.String(), 5: "answered",
		} {
			if told[stream] != want {
				t.Errorf("stream %d: %q, want %q", stream, told[stream], want)
			}
		}
		if err := errors.Join(conn.Close(), p.Halt(t.Context()), <-served); err != nil {
			t.Error(err)
		}
		<-read
	})
}
