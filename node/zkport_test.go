package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/node/config"
	holdfastv1 "holdfast/proto/holdfast/v1" //nolint:depguard // a client's own words, through the client port
	"holdfast/test/bubble"
	"holdfast/test/certs"
	"holdfast/transport/authz"
	clientdial "holdfast/transport/dial"
	"holdfast/transport/secure"
	"holdfast/zk/jute"
)

// zooKeeperAuth is a file of the roles of certificates.
type zooKeeperAuth struct {
	t    *testing.T
	file string
}

func (a zooKeeperAuth) write(roles map[string]string) {
	a.t.Helper()
	text := "certificates:\n"
	for name, role := range roles {
		uri := secure.Name{Cluster: config.Default().ClusterID, Kind: secure.KindClient, Name: name}.URI()
		text += fmt.Sprintf("- {name: 'uri:%s', roles: [%s]}\n", uri, role)
	}
	if err := os.WriteFile(a.file, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// exchange sends a frame, or a word without a length, and returns the answer: io.EOF when the connection ends instead.
//
//nolint:revive // flag-parameter: one of two protocols
func exchange(t *testing.T, conn net.Conn, request []byte, isWord bool) ([]byte, error) {
	t.Helper()
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	if isWord {
		all, err := io.ReadAll(conn)
		if len(all) == 0 && err == nil {
			err = io.EOF
		}
		return all, err
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil, err
	}
	answer := make([]byte, binary.BigEndian.Uint32(head))
	_, err := io.ReadFull(conn, answer)
	return answer, err
}

// With auth ZooKeeper's clients are known by their certificates: who has the role client gets a session, until the
// role is taken; who may read is told four-letter words; others hear nothing.
func TestZooKeepersClientsNeedARole(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		roles := zooKeeperAuth{t, filepath.Join(t.TempDir(), "auth.yaml")}
		roles.write(map[string]string{"web": "client", "ann": "reader"})
		c := newSecureClusterWith(t, secure.Require, func(cfg *config.Config) {
			cfg.Listen.ZooKeeper = ":7404"
			cfg.Auth.Mode, cfg.Auth.File = authz.Certificates, roles.file
			cfg.TLS.ClientAuth = secure.AuthOptional
		})
		defer c.stop()
		c.serve()
		c.founded()
		connect := jute.NewFrame()
		connect.Int(0)
		connect.Long(0)
		connect.Int(30_000)
		connect.Long(0)
		connect.Buffer(make([]byte, 16))
		hello := connect.Frame()
		ping := jute.NewFrame()
		ping.Int(-2)
		ping.Int(11)
		dial := func(from *certs.CA, name string) net.Conn {
			t.Helper()
			var files secure.Files
			if name != "" {
				files = from.Client(config.Default().ClusterID, name)
			} else {
				files.CA = c.ca.File
			}
			conn, err := c.dialled("stranger-"+name, files, secure.Require)(t.Context(), "n1:7404")
			if err != nil {
				t.Fatal(err)
			}
			return conn
		}
		for name, connects := range map[string]bool{"web": true, "ann": false, "bob": false, "": false} {
			conn := dial(c.ca, name)
			answer, err := exchange(t, conn, hello, false)
			if got := err == nil && len(answer) > 0; got != connects {
				t.Errorf("%q connects: %v, %v; want %v", name, got, err, connects)
			}
			_ = conn.Close()
		}
		for name, told := range map[string]bool{"web": true, "ann": true, "bob": false} {
			conn := dial(c.ca, name)
			answer, err := exchange(t, conn, []byte("srvr"), true)
			if got := strings.HasPrefix(string(answer), "Zookeeper version"); got != told {
				t.Errorf("%q is told %q, %v; want an answer: %v", name, answer, err, told)
			}
			_ = conn.Close()
		}
		unlisted := dial(c.ca, "bob")
		if answer, err := exchange(t, unlisted, []byte("dump"), true); len(answer) > 0 {
			t.Errorf("bob is told of a word that is not answered: %q, %v", answer, err)
		}
		_ = unlisted.Close()
		held := dial(c.ca, "web")
		defer held.Close()
		if _, err := exchange(t, held, hello, false); err != nil {
			t.Fatal(err)
		}
		if _, err := exchange(t, held, ping.Frame(), false); err != nil {
			t.Errorf("a ping of one with the role: %v", err)
		}
		reader, err := clientdial.Client("n1:7400", clientdial.Options{
			Dial: c.dialled("reader", c.ca.Client(config.Default().ClusterID, "ann"), secure.Require),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		found, err := holdfastv1.NewClusterServiceClient(reader).ListConnections(t.Context(),
			&holdfastv1.ListConnectionsRequest{Limit: 10, Principal: "/client/web"})
		listed := found.GetConnections()
		if err != nil || len(listed) != 1 || !listed[0].GetVerified() ||
			!strings.HasSuffix(listed[0].GetName(), "/client/web") {
			t.Errorf("among the connections by its name: %v, %v", listed, err)
		}
		roles.write(map[string]string{"ann": "reader"})
		c.eventually("the role is taken", time.Minute, func() bool {
			_, err := exchange(t, held, ping.Frame(), false)
			return errors.Is(err, io.EOF) || err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
		})
	})
}
