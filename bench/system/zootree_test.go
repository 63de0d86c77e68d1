package system

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"testing"
)

// zooAnswered is a message of a server: header and body.
func zooAnswered(xid, code int32, body ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(xid))
	b = binary.BigEndian.AppendUint64(b, 5)
	return append(binary.BigEndian.AppendUint32(b, uint32(code)), body...)
}

// A ping's answer may overtake others, and events come between them.
func TestZooAnswersAndEvents(t *testing.T) {
	near, far := net.Pipe()
	sent := make(chan []byte, 10)
	go func() {
		for {
			b, err := frame(far, nil)
			if err != nil {
				close(sent)
				return
			}
			sent <- b
		}
	}()
	c := &zooConn{}
	s := &zooSession{conn: near}
	var read []byte
	var failed, pinged error
	events := 0
	s.onEvent = func(error) { events++ }
	c.Read(s, "/a", func(data []byte, err error) { read = append(data[:0:0], data...) })
	c.Read(s, "/b", func(_ []byte, err error) { failed = err })
	pinged = io.EOF
	c.TouchOne(s, func(err error) { pinged = err })
	if got := hex.EncodeToString(<-sent); got != "00000001"+"00000004"+"00000002"+"2f61"+"00" {
		t.Errorf("sent %s, want a read of /a without a watch", got)
	}
	for _, m := range [][]byte{
		zooAnswered(zooPingXid, 0), zooAnswered(zooEventXid, 0), zooAnswered(1, 0, 0, 0, 0, 2, 'h', 'i', 9),
		zooAnswered(2, zooNoNode),
	} {
		if err := s.received(m); err != nil {
			t.Fatal(err)
		}
	}
	if pinged != nil || string(read) != "hi" || !errors.Is(failed, ErrNoEntry) || events != 1 {
		t.Errorf("ping %v, read %q, then %v, %d events; want none, hi, no entry, 1", pinged, read, failed, events)
	}
	if err := s.received(make([]byte, 15)); err == nil {
		t.Error("half a header is accepted")
	}
	s.end(ErrEnded)
	if events != 2 {
		t.Error("a watcher does not get the end of the connection")
	}
	for range sent { // until the pipe is closed
	}
}

func TestZooData(t *testing.T) {
	for in, want := range map[string]string{"00000002686907": "hi", "ffffffff": "", "00000000": ""} {
		b, err := hex.DecodeString(in)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := zooData(b); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", in, got, err, want)
		}
	}
	for _, bad := range [][]byte{nil, {0, 0, 0, 5, 1}} {
		if _, err := zooData(bad); err == nil {
			t.Errorf("%x is accepted as data", bad)
		}
	}
}
