package zk_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/session"
)

// entry is what a client was given.
type entry struct {
	conn     io.Reader
	id       session.ID
	password []byte
	readOnly bool
}

// comesReadOnly connects as a client that takes a read-only session too, and has seen a zxid.
func comesReadOnly(c *world, node string, id session.ID, password []byte, zxid uint64) net.Conn {
	c.T.Helper()
	conn := knock(c, node+":7404")
	request := append(connecting(id, password), 1)
	binary.BigEndian.PutUint32(request, uint32(len(request)-4))
	binary.BigEndian.PutUint64(request[4+4:], zxid)
	_, _ = conn.Write(request)
	return conn
}

// entersReadOnly asks a node for a session, or for a former one, as a client that takes a read-only one too. Without an
// answer it returns nothing.
func entersReadOnly(c *world, node string, id session.ID, password []byte) (e entry) {
	c.T.Helper()
	conn := comesReadOnly(c, node, id, password, 0)
	answer := make([]byte, 4+37)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return e
	}
	return entry{conn, session.ID(binary.BigEndian.Uint64(answer[12:])), answer[24:40], answer[40] == 1}
}

// TestLocalSessionsAfterAnOutage: a node that is read-write again ends the connections of the local sessions that it
// gave out meanwhile. One that is resumed becomes a session of the cluster, and where that is not allowed it is closed:
// no client is read-only for ever (Z9 read-only).
func TestLocalSessionsAfterAnOutage(t *testing.T) {
	for _, upgrades := range []bool{true, false} {
		t.Run(fmt.Sprint("upgrades ", upgrades), func(t *testing.T) {
			runWith(t, func(cfg *config.Config) {
				cfg.Sessions.Local, cfg.Sessions.LocalUpgrade, cfg.ReadOnly = true, upgrades, true
			}, func(c *world) {
				t := c.T
				served(t, c, "z", 10*time.Second)
				heal := c.Apart()
				var in entry
				for end := time.Now().Add(2 * time.Minute); in.id == 0; time.Sleep(time.Second) {
					if time.Now().After(end) {
						t.Fatal("no session is given")
					}
					in = entersReadOnly(c, "n1", 0, nil)
				}
				if !in.readOnly {
					t.Fatal("the session is not read-only")
				}
				heal()
				if rest, err := io.ReadAll(in.conn); err != nil || len(rest) > 0 {
					t.Errorf("the connection ends with % x, %v", rest, err)
				}
				back := entersReadOnly(c, "n1", in.id, in.password)
				if want := map[bool]session.ID{true: in.id}[upgrades]; back.conn == nil || back.id != want || back.readOnly {
					t.Errorf("resumed as %v, read-only %t; want %v", back.id, back.readOnly, want)
				}
				found, err := sdk(t, c, "reader").Get(t.Context(), in.id)
				if err != nil || upgrades != (found.Certificate == nil) || found.Session.Local {
					t.Errorf("it is found as %+v, %v", found, err)
				}
			})
		})
	}
}

// TestReadOnlyNodesShowNothingOlder: a client that has seen more than a read-only node has is sent on (H-13). These
// nodes do not hear from each other, so the client would go back in time.
func TestReadOnlyNodesShowNothingOlder(t *testing.T) {
	runWith(t, func(cfg *config.Config) { cfg.Sessions.Local, cfg.ReadOnly = true, true }, func(c *world) {
		t := c.T
		served(t, c, "z", 10*time.Second)
		defer c.Apart()()
		for end := time.Now().Add(2 * time.Minute); entersReadOnly(c, "n1", 0, nil).id == 0; time.Sleep(time.Second) {
			if time.Now().After(end) {
				t.Fatal("no session is given")
			}
		}
		ahead := comesReadOnly(c, "n1", 0, nil, 1_000_000<<16)
		_ = ahead.SetReadDeadline(time.Now().Add(time.Second))
		if n, err := ahead.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
			t.Errorf("a client that is ahead got %d bytes, %v: want the end of its connection", n, err)
		}
		level := comesReadOnly(c, "n1", 0, nil, 1<<16)
		if got, err := io.ReadFull(level, make([]byte, 4+37)); err != nil {
			t.Errorf("a client that is not got %d bytes, %v", got, err)
		}
	})
}
