package zk_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	zookeeper "github.com/go-zookeeper/zk"

	"holdfast/client"
	"holdfast/session"
)

// A node lists the connections of ZooKeeper's clients beside those of its own protocol. A client that has authenticated
// by a password is listed by name, without the hash.
func TestConnectionsAreListed(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second, "n1:7404")
		if err := z.AddAuth("digest", []byte("me:secret")); err != nil {
			t.Fatal(err)
		}
		if _, err := z.Create("/a", nil, zookeeper.FlagEphemeral, open); err != nil {
			t.Fatal(err)
		}
		for _, watch := range []func() error{
			func() error { _, _, _, err := z.GetW("/a"); return err },
			func() error { _, _, _, err := z.ChildrenW("/"); return err },
		} {
			if err := watch(); err != nil {
				t.Fatal(err)
			}
		}
		cl, id := sdk(t, c, "asks"), session.ID(z.SessionID())
		list := func(endpoint string, o client.ConnectionOptions) (client.ConnectionList, error) {
			return cl.Connections(t.Context(), endpoint, o)
		}
		all, err := list("n1:7400", client.ConnectionOptions{Session: id})
		if err != nil || all.Total != 1 || len(all.Connections) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		one := all.Connections[0]
		if one.Protocol != "zookeeper" || one.Sessions != 1 || one.Watches != 2 || one.Requests < 4 || one.Address == "" ||
			one.Name != "" || one.Verified || one.Over <= 0 || one.Rate <= 0 || !slices.Contains(one.Principals, "digest:me") ||
			len(one.Principals) > 2 {
			t.Errorf("listed: %+v", one)
		}
		before := one.Requests
		time.Sleep(10 * time.Second) // pings
		by, err := list("n1:7400", client.ConnectionOptions{Principal: "digest:me", Limit: 1})
		if err != nil || len(by.Connections) != 1 || by.Connections[0].Requests <= before ||
			by.Connections[0].Over > 12*time.Second {
			t.Errorf("by its principal, after pings: %+v, %v", by, err)
		}
		if _, err = list("n2:7400", client.ConnectionOptions{Session: id}); !errors.Is(err, session.ErrNoConnection) {
			t.Errorf("at a node that does not serve the session: %v", err)
		}
		z.Close()
		synctest.Wait()
		if _, err = list("n1:7400", client.ConnectionOptions{Session: id}); !errors.Is(err, session.ErrNoConnection) {
			t.Errorf("after it has gone: %v", err)
		}
	})
}

// A name that is not UTF-8 is shown like others, as ZooKeeper shows it. Without: the list of connections that has it
// cannot be sent.
func TestConnectionsWithStrangeNamesAreListed(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second, "n1:7404")
		if err := z.AddAuth("digest", []byte("me\xff\xfe:secret")); err != nil {
			t.Fatal(err)
		}
		all, err := sdk(t, c, "asks").Connections(t.Context(), "n1:7400", client.ConnectionOptions{
			Session: session.ID(z.SessionID()),
		})
		if err != nil || len(all.Connections) != 1 ||
			!slices.Contains(all.Connections[0].Principals, "digest:me\uFFFD\uFFFD") {
			t.Errorf("listed: %+v %v", all, err)
		}
	})
}
