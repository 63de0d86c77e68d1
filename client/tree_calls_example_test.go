package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/client"
	"holdfast/tree"
)

// ExampleTree_Get reads an entry, and finds none.
func ExampleTree_Get() {
	ctx, _, in := inExample("/get")
	_, err := in.Create(ctx, "/size", []byte("10"), client.CreateOptions{})
	check(err)
	size, err := in.Get(ctx, "/size")
	check(err)
	fmt.Printf("%s, version %d, of a session: %t\n", size.Data, size.Stat.Version, size.Stat.Owner != 0)
	_, err = in.Get(ctx, "/colour")
	fmt.Println("none:", errors.Is(err, &tree.RefusedError{Code: tree.NoNode}))
	// Output:
	// 10, version 0, of a session: false
	// none: true
}

// ExampleTree_Exists checks whether an entry exists, and waits for its creation.
func ExampleTree_Exists() {
	ctx, _, in := inExample("/exists")
	comes := client.NewOneShot()
	defer comes.Stop()
	_, there, err := in.Exists(ctx, "/ready", client.WithWatch(comes))
	check(err)
	fmt.Println(there)
	_, err = in.Create(ctx, "/ready", nil, client.CreateOptions{})
	check(err)
	event, err := comes.Wait(ctx)
	check(err)
	fmt.Println(event.Path, event.Kind)
	// Output:
	// false
	// /ready created
}

// ExampleTree_Set replaces data. The stamp of the change orders it among all changes of the cluster.
func ExampleTree_Set() {
	ctx, _, in := inExample("/set")
	made, err := in.Create(ctx, "/size", []byte("10"), client.CreateOptions{})
	check(err)
	set, err := in.Set(ctx, "/size", []byte("11"))
	check(err)
	fmt.Println("version", set.Stat.Version, set.Stamp > made.Stamp, set.Stat.Modified == set.Stamp)
	// Output:
	// version 1 true true
}

// ExampleUntilAnswered removes an entry whose end others wait for: a client that is configured with FailInFlight
// repeats the removal after a lost connection.
func ExampleUntilAnswered() {
	ctx, _, in := inExample("/answered")
	_, err := in.Create(ctx, "/busy", nil, client.CreateOptions{Kind: tree.Ephemeral})
	check(err)
	_, err = in.Delete(ctx, "/busy", client.UntilAnswered())
	check(err)
	_, there, err := in.Exists(ctx, "/busy")
	check(err)
	fmt.Println("there:", there)
	// Output:
	// there: false
}

// ExampleTree_Delete removes an entry, if it has no children.
func ExampleTree_Delete() {
	ctx, _, in := inExample("/delete")
	_, err := in.Create(ctx, "/a/b", nil, client.CreateOptions{Parents: true})
	check(err)
	_, err = in.Delete(ctx, "/a")
	fmt.Println("has children:", errors.Is(err, &tree.RefusedError{Code: tree.NotEmpty}))
	_, err = in.Delete(ctx, "/a/b")
	check(err)
	_, err = in.Delete(ctx, "/a")
	check(err)
	// Output:
	// has children: true
}

// ExampleTree_DeleteTree removes an entry with all entries below, in one change.
func ExampleTree_DeleteTree() {
	ctx, _, in := inExample("/deletetree")
	for _, path := range []string{"/a/b/c", "/a/d"} {
		_, err := in.Create(ctx, path, nil, client.CreateOptions{Parents: true})
		check(err)
	}
	removed, err := in.DeleteTree(ctx, "/a")
	check(err)
	fmt.Println(removed.Entries)
	// Output:
	// 4
}

// ExampleTree_ListPage asks for the newest two of some numbered entries.
func ExampleTree_ListPage() {
	ctx, _, in := inExample("/listpage")
	for range 3 {
		_, err := in.Create(ctx, "/jobs/job-", nil, client.CreateOptions{Sequential: true, Parents: true})
		check(err)
	}
	page, err := in.ListPage(ctx, "/jobs", client.Listing{Backward: true, PageSize: 2, WithStat: true})
	check(err)
	for _, job := range page.Children {
		fmt.Println(job.Name, job.Stat.Kind)
	}
	fmt.Println("more:", page.More)
	// Output:
	// job-0000000002 persistent
	// job-0000000001 persistent
	// more: true
}

// ExampleTree_GetACL shows who may do what.
func ExampleTree_GetACL() {
	ctx, _, in := inExample("/getacl")
	_, err := in.Create(ctx, "/a/b", nil, client.CreateOptions{Parents: true})
	check(err)
	_, err = in.SetACL(ctx, "/a", tree.ACL{{Permissions: tree.Read | tree.Admin, Scheme: tree.World, ID: tree.Anyone}})
	check(err)
	list, err := in.GetACL(ctx, "/a/b")
	check(err)
	for _, grant := range list.ACL {
		fmt.Println(grant.Scheme, grant.ID, grant.Permissions, "inherited:", list.Inherited)
	}
	// Output:
	// world anyone ra inherited: true
}

// ExampleTree_EphemeralsPage asks for the first of a session's ephemeral entries.
func ExampleTree_EphemeralsPage() {
	ctx, s, in := inExample("/ephemeralspage")
	for _, path := range []string{"/a", "/b"} {
		_, err := in.Create(ctx, path, nil, client.CreateOptions{Kind: tree.Ephemeral})
		check(err)
	}
	page, err := in.EphemeralsPage(ctx, client.EphemeralsOf{Session: s.ID(), PageSize: 1})
	check(err)
	fmt.Println(page.Paths, "more:", page.More)
	// Output:
	// [/a] more: true
}

// ExampleTree_CheckFence asks, for a resource, whether the holder of a token still has the lock.
func ExampleTree_CheckFence() {
	ctx, s, in := inExample("/fence")
	lock, err := in.Create(ctx, "/lock", nil, client.CreateOptions{Kind: tree.Ephemeral})
	check(err)
	resource := newExampleClient()
	defer resource.Close()
	there, err := resource.Tree().Chroot(in.Root())
	check(err)
	held, err := there.CheckFence(ctx, "/lock", lock.Stat.Created)
	check(err)
	fmt.Println(held)
	check(s.Close(ctx))
	held, err = there.CheckFence(ctx, "/lock", lock.Stat.Created)
	check(err)
	fmt.Println(held)
	// Output:
	// true
	// false
}

// ExampleTree_Sync catches up with all that was written anywhere, once, and reads from the node's own state then.
func ExampleTree_Sync() {
	ctx, _, in := inExample("/sync")
	made, err := in.Create(ctx, "/a", nil, client.CreateOptions{})
	check(err)
	other := newExampleClient()
	defer other.Close()
	there, err := other.Tree().Chroot(in.Root())
	check(err)
	stamp, err := there.Sync(ctx)
	check(err)
	_, found, err := there.Exists(ctx, "/a")
	check(err)
	fmt.Println(stamp >= made.Stamp, found)
	// Output:
	// true true
}

// ExampleTree_Chroot gives a part of the program its own tree.
func ExampleTree_Chroot() {
	ctx, _, in := inExample("/chroot")
	mine, err := in.Chroot("/parts/mail")
	check(err)
	made, err := mine.Create(ctx, "/box", nil, client.CreateOptions{Parents: true})
	check(err)
	fmt.Println(made.Path, "in", mine.Root())
	_, there, err := in.Exists(ctx, "/parts/mail/box")
	check(err)
	fmt.Println(there)
	// Output:
	// /box in /chroot/parts/mail
	// true
}

// ExampleTree_Root names the entry that the paths of a tree begin at.
func ExampleTree_Root() {
	c, err := client.New(client.Config{ConnectString: "127.0.0.1:2181/app"})
	check(err)
	defer c.Close()
	fmt.Println(c.Tree().Root())
	// Output:
	// /app
}

// ExampleAllowStale reads also from a node that has lost the others.
func ExampleAllowStale() {
	ctx, _, in := inExample("/stale")
	_, err := in.Create(ctx, "/a", []byte("x"), client.CreateOptions{})
	check(err)
	a, err := in.Get(ctx, "/a", client.AllowStale()) // still not older than what this client has seen
	check(err)
	fmt.Printf("%s\n", a.Data)
	// Output:
	// x
}

// ExampleWithWill makes a mark, and makes the cluster write a note if the session ends before the mark is gone.
func ExampleWithWill() {
	ctx, s, in := inExample("/withwill")
	_, err := in.Create(ctx, "/working", nil, client.CreateOptions{}, client.WithWill(tree.Will{
		OnClose: true,
		Transaction: tree.Transaction{Then: []tree.Op{
			tree.Delete{Path: "/working", Version: tree.Any},
			tree.Create{Path: "/abandoned", Kind: tree.Persistent},
		}},
	}))
	check(err)
	check(s.Close(ctx))
	_, _, in = inExample("/withwill")
	for child, err := range in.List(ctx, "/", client.Listing{}) {
		check(err)
		fmt.Println(child.Name)
	}
	// Output:
	// abandoned
}

// ExampleClient_SeenStamp makes another process read nothing older than this process has seen.
func ExampleClient_SeenStamp() {
	ctx, _, in := inExample("/seen")
	set, err := in.Create(ctx, "/a", nil, client.CreateOptions{})
	check(err)
	fmt.Println(examples.client.SeenStamp() >= set.Stamp)
	// Output:
	// true
}

// ExampleOneShot gives a watch up.
func ExampleOneShot() {
	ctx, _, in := inExample("/oneshot")
	_, err := in.Create(ctx, "/a", nil, client.CreateOptions{})
	check(err)
	w := client.NewOneShot()
	_, err = in.Get(ctx, "/a", client.WithWatch(w))
	check(err)
	w.Stop()
	_, err = w.Wait(ctx)
	fmt.Println(errors.Is(err, client.ErrNotSet))
	// Output:
	// true
}

// ExampleMirror_Changes reads a configuration again whenever a part of it has changed.
func ExampleMirror_Changes() {
	ctx, _, in := inExample("/changes")
	_, err := in.Create(ctx, "/config", nil, client.CreateOptions{})
	check(err)
	m, err := in.Mirror(ctx, "/config")
	check(err)
	defer m.Close()
	changed := m.Changes() // before the read, so that no change is missed
	fmt.Println(m.List("/config"))
	_, err = in.Create(ctx, "/config/size", nil, client.CreateOptions{})
	check(err)
	for len(m.List("/config")) == 0 {
		<-changed
		changed = m.Changes()
	}
	fmt.Println(m.List("/config"))
	// Output:
	// []
	// [size]
}

// ExampleMirror_Wait reads its own write from a mirror.
func ExampleMirror_Wait() {
	ctx, _, in := inExample("/wait")
	m, err := in.Mirror(ctx, "/config")
	check(err)
	defer m.Close()
	set, err := in.Create(ctx, "/config/size", []byte("2"), client.CreateOptions{Parents: true})
	check(err)
	check(m.Wait(ctx, set.Stamp))
	size, _ := m.Get("/config/size")
	fmt.Printf("%s\n", size.Data)
	// Output:
	// 2
}

// ExampleClient_WatchSessions shows when a session is opened and how it ends.
func ExampleClient_WatchSessions() {
	ctx, _, _ := inExample("/sessions")
	watching, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var s *client.Session
	for e, err := range examples.client.WatchSessions(watching) {
		check(err)
		switch {
		case s == nil: // the watch is in place
			s, err = examples.client.Open(ctx, client.SessionOptions{Timeout: 30 * time.Second})
			check(err)
			check(s.Close(ctx))
		case e.Opened != nil && e.Opened.ID == s.ID():
			fmt.Println("opened, timeout", e.Opened.Timeout)
		case e.Ended != nil && e.Ended.ID == s.ID():
			fmt.Println("ended:", e.Ended.Cause)
			return
		}
	}
	// Output:
	// opened, timeout 30s
	// ended: closed
}
