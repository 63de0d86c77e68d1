package client_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"holdfast/client"
	"holdfast/tree"
)

// ExampleTree acquires a lock: the entry ends with the session, and its creation is the fencing token.
func ExampleTree() {
	ctx, s, in := inExample("/lock")
	lock := client.CreateOptions{Kind: tree.Ephemeral, Parents: true}
	made, err := in.Create(ctx, "/locks/printer", nil, lock)
	check(err)
	token := made.Stat.Created
	_, err = in.Create(ctx, "/locks/printer", nil, lock)
	fmt.Println("taken again:", !errors.Is(err, &tree.RefusedError{Code: tree.NodeExists}))
	held, err := in.CheckFence(ctx, "/locks/printer", token)
	check(err)
	fmt.Println("held:", held)

	check(s.Close(ctx))
	_, _, in = inExample("/lock")
	made, err = in.Create(ctx, "/locks/printer", nil, lock)
	check(err)
	fmt.Println("taken by the next with a higher token:", made.Stat.Created > token)
	// Output:
	// taken again: false
	// held: true
	// taken by the next with a higher token: true
}

// ExampleTree_Create makes entries of several kinds.
func ExampleTree_Create() {
	ctx, _, in := inExample("/create")
	for range 2 {
		job, err := in.Create(ctx, "/jobs/job-", []byte("work"), client.CreateOptions{Sequential: true, Parents: true})
		check(err)
		fmt.Println(job.Path)
	}
	cached, err := in.Create(ctx, "/cached", nil, client.CreateOptions{Kind: tree.Expiring, TTL: time.Minute})
	check(err)
	fmt.Println(cached.Path, cached.Stat.Kind)
	// Output:
	// /jobs/job-0000000000
	// /jobs/job-0000000001
	// /cached expiring
}

// ExampleVersion changes an entry only if it is unchanged since it was read.
func ExampleVersion() {
	ctx, _, in := inExample("/version")
	_, err := in.Create(ctx, "/config", []byte("a"), client.CreateOptions{})
	check(err)
	read, err := in.Get(ctx, "/config")
	check(err)
	set, err := in.Set(ctx, "/config", []byte("b"), client.Version(read.Stat.Version))
	check(err)
	fmt.Println("version", set.Stat.Version)
	_, err = in.Set(ctx, "/config", []byte("c"), client.Version(read.Stat.Version))
	fmt.Println("changed since:", errors.Is(err, &tree.RefusedError{Code: tree.BadVersion}))
	_, err = in.Delete(ctx, "/config")
	check(err)
	_, there, err := in.Exists(ctx, "/config")
	check(err)
	fmt.Println("there:", there)
	// Output:
	// version 1
	// changed since: true
	// there: false
}

// ExampleTree_Transact sets two entries, both or none, if the first is unchanged since it was read.
func ExampleTree_Transact() {
	ctx, _, in := inExample("/transact")
	for _, path := range []string{"/first", "/second"} {
		_, err := in.Create(ctx, path, nil, client.CreateOptions{})
		check(err)
	}
	first, err := in.Get(ctx, "/first")
	check(err)
	both := tree.Transaction{
		If: []tree.Condition{{
			Path: "/first", Property: tree.ModifiedStamp, Is: tree.Equal, Value: uint64(first.Stat.Modified),
		}},
		Then: []tree.Op{
			tree.Set{Path: "/first", Data: []byte("x"), Version: tree.Any},
			tree.Set{Path: "/second", Data: []byte("x"), Version: tree.Any},
		},
	}
	for range 2 {
		done, err := in.Transact(ctx, both)
		check(err)
		fmt.Println("set:", !done.Outcome.Else)
	}
	// Output:
	// set: true
	// set: false
}

// ExampleTree_List lists an entry's children in pages that the iterator asks for.
func ExampleTree_List() {
	ctx, _, in := inExample("/list")
	for _, name := range []string{"b", "a", "c"} {
		_, err := in.Create(ctx, "/all/"+name, []byte(strings.ToUpper(name)), client.CreateOptions{Parents: true})
		check(err)
	}
	for child, err := range in.List(ctx, "/all", client.Listing{WithData: true, PageSize: 2}) {
		check(err)
		fmt.Printf("%s=%s\n", child.Name, child.Data)
	}
	page, err := in.ListPage(ctx, "/all", client.Listing{After: "a", PageSize: 1})
	check(err)
	fmt.Println(page.Children[0].Name, page.More, page.Stat.Children)
	removed, err := in.DeleteTree(ctx, "/all")
	check(err)
	fmt.Println("removed", removed.Entries)
	// Output:
	// a=A
	// b=B
	// c=C
	// b true 3
	// removed 4
}

// ExampleTree_SetACL makes an entry readable to all clients, and read-only.
func ExampleTree_SetACL() {
	ctx, _, in := inExample("/acl")
	_, err := in.Create(ctx, "/config", nil, client.CreateOptions{})
	check(err)
	before, err := in.GetACL(ctx, "/config")
	check(err)
	fmt.Println("inherited:", before.Inherited)
	_, err = in.SetACL(ctx, "/config", tree.ACL{{Permissions: tree.Read, Scheme: tree.World, ID: tree.Anyone}})
	check(err)
	_, err = in.Set(ctx, "/config", []byte("x"))
	fmt.Println("may be changed:", !errors.Is(err, &tree.RefusedError{Code: tree.NoPermission}))
	after, err := in.GetACL(ctx, "/config")
	check(err)
	fmt.Println(after.ACL[0].Permissions, after.ACL[0].Scheme, after.ACL[0].ID)
	// Output:
	// inherited: true
	// may be changed: false
	// r world anyone
}

// ExampleTree_Ephemerals lists the entries that end with a session.
func ExampleTree_Ephemerals() {
	ctx, s, in := inExample("/ephemerals")
	for _, path := range []string{"/workers/b", "/workers/a"} {
		_, err := in.Create(ctx, path, nil, client.CreateOptions{Kind: tree.Ephemeral, Parents: true})
		check(err)
	}
	for path, err := range in.Ephemerals(ctx, client.EphemeralsOf{Session: s.ID(), Prefix: "/workers/"}) {
		check(err)
		fmt.Println(path)
	}
	// Output:
	// /workers/a
	// /workers/b
}

// ExampleTree_Watch shows changes below an entry. A read after the watch is in place misses nothing.
func ExampleTree_Watch() {
	ctx, _, in := inExample("/watch")
	left := 3
	for e, err := range in.Watch(ctx, "/app", tree.WatchRecursive) {
		switch {
		case err != nil:
			check(err)
		case e.Started: // read everything below /app here, and after Lost
			_, err := in.Create(ctx, "/app/a", nil, client.CreateOptions{Parents: true})
			check(err)
			_, err = in.Set(ctx, "/app/a", []byte("x"))
			check(err)
		default:
			fmt.Println(e.Path, e.Kind)
			left--
		}
		if left == 0 {
			break
		}
	}
	// Output:
	// /app created
	// /app/a created
	// /app/a data changed
}

// ExampleWithWatch waits for the next change of what was read, with nothing between the two.
func ExampleWithWatch() {
	ctx, _, in := inExample("/once")
	_, err := in.Create(ctx, "/flag", []byte("off"), client.CreateOptions{})
	check(err)
	changed := client.NewOneShot()
	defer changed.Stop()
	flag, err := in.Get(ctx, "/flag", client.WithWatch(changed))
	check(err)
	fmt.Printf("%s\n", flag.Data)
	_, err = in.Set(ctx, "/flag", []byte("on"))
	check(err)
	event, err := changed.Wait(ctx)
	check(err)
	fmt.Println(event.Path, event.Kind)
	// Output:
	// off
	// /flag data changed
}

// ExampleTree_Mirror keeps a configuration in memory, and waits until it shows a change.
func ExampleTree_Mirror() {
	ctx, _, in := inExample("/mirror")
	_, err := in.Create(ctx, "/config/size", []byte("1"), client.CreateOptions{Parents: true})
	check(err)
	m, err := in.Mirror(ctx, "/config")
	check(err)
	defer m.Close()
	set, err := in.Set(ctx, "/config/size", []byte("2"))
	check(err)
	check(m.Wait(ctx, set.Stamp))
	for path, e := range m.Walk("/config") {
		fmt.Printf("%s = %q\n", path, e.Data)
	}
	size, _ := m.Get("/config/size")
	fmt.Println(m.List("/config"), string(size.Data), m.Stamp() >= set.Stamp, m.Err())
	// Output:
	// /config = ""
	// /config/size = "2"
	// [size] 2 true <nil>
}

// ExampleWithWill_alone has the cluster note the end of a session.
func ExampleWithWill_alone() {
	ctx, s, in := inExample("/will")
	_, err := in.Transact(ctx, tree.Transaction{}, client.WithWill(tree.Will{OnClose: true, Transaction: tree.Transaction{
		Then: []tree.Op{tree.Create{Path: "/gone", Kind: tree.Persistent, Data: []byte("good bye")}},
	}}))
	check(err)
	check(s.Close(ctx))
	_, _, in = inExample("/will")
	gone, err := in.Get(ctx, "/gone")
	check(err)
	fmt.Printf("%s\n", gone.Data)
	// Output:
	// good bye
}

// ExampleLinearizable reads an entry that another process has just written.
func ExampleLinearizable() {
	ctx, _, in := inExample("/linearizable")
	made, err := in.Create(ctx, "/a", nil, client.CreateOptions{})
	check(err)
	other := newExampleClient()
	defer other.Close()
	there, err := other.Tree(client.Linearizable()).Chroot(in.Root())
	check(err)
	a, err := there.Get(ctx, "/a")
	check(err)
	fmt.Println(a.Stat.Created == made.Stamp, other.SeenStamp() >= made.Stamp)
	stamp, err := there.Sync(ctx)
	check(err)
	_, err = there.Get(ctx, "/a", client.AllowStale()) // not older than what this client has seen
	check(err)
	fmt.Println(stamp >= made.Stamp)
	// Output:
	// true true
	// true
}
