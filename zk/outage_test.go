package zk_test

import (
	"encoding/binary"
	"fmt"
	"io"
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

// entersReadOnly asks a node for a session, or for a former one, as a client that takes a read-only one too. Without an
// answer it returns nothing.
func entersReadOnly(c *world, node string, id session.ID, password []byte) (e entry) {
	c.T.Helper()
	conn := knock(c, node+":7404")
	request := append(connecting(id, password), 1)
	binary.BigEndian.PutUint32(request, uint32(len(request)-4))
	_, _ = conn.Write(request)
	answer := make([]byte, 4+37)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return e
	}
	return entry{conn, session.ID(binary.BigEndian.Uint64(answer[12:])), answer[24:40], answer[40] == 1}
}

// TestLocalSessionsAfterAnOutage: a node that is read-write again ends the connections of the local sessions that it
// gave out meanwhile. One that is resumed becomes a session of the cluster, and where that is not allowed it is closed:
// no client is read-only for ever (Z9).
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
