package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"holdfast/tree"
)

const (
	// sessionTimeout is that of the session at the source, retryAfter the pause before a call is made again.
	sessionTimeout = 20 * time.Second
	retryAfter     = 200 * time.Millisecond
	// rereads is how often data and access list are read again that are not of the same entry.
	rereads = 5
)

// ZooKeeper is a [Source]: a session of an ensemble.
type ZooKeeper struct {
	conn    *zk.Conn
	link    *link
	chroot  string
	timeout time.Duration
	// synced is the newest session that is known to have made a sync, 0 for none.
	synced atomic.Int64
}

// Ensemble is a ZooKeeper ensemble, and how to reach it.
type Ensemble struct {
	// Servers are host:port.
	Servers []string
	// Chroot is empty for none.
	Chroot string
	// Credentials are SCHEME:ID.
	Credentials []string
	// TLS is nil for a ZooKeeper without.
	TLS *TLS
	// Timeout is for how long a lost connection is waited for.
	Timeout time.Duration
}

// DialZooKeeper opens a session of an ensemble. The caller closes it.
func DialZooKeeper(ctx context.Context, e Ensemble) (*ZooKeeper, error) {
	config, err := e.TLS.config()
	if err != nil {
		return nil, err
	}
	l := &link{tls: config}
	conn, events, err := zk.Connect(e.Servers, sessionTimeout, zk.WithLogger(silent{}), zk.WithLogInfo(false),
		zk.WithDialer(l.dial), zk.WithHostProvider(&names{}))
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, conn.Close)() // ends a pending call
	go func() {                                // ends with the connection, which closes the channel
		for range events {
		}
	}()
	z := &ZooKeeper{conn: conn, link: l, chroot: e.Chroot, timeout: e.Timeout}
	for _, c := range e.Credentials {
		scheme, id, _ := strings.Cut(c, ":")
		if err := z.again(ctx, func() error { return conn.AddAuth(scheme, []byte(id)) }); err != nil {
			conn.Close()
			return nil, fmt.Errorf("authenticate at the source by %s: %w", scheme, err)
		}
	}
	return z, nil
}

// silent keeps the library from printing.
type silent struct{}

func (silent) Printf(string, ...any) {}

// Close ends the session.
func (z *ZooKeeper) Close() { z.conn.Close() }

// Sync implements [Source]. The server that serves the session may lag behind its leader, or be cut off from the leader
// unnoticed (syncLimit). It answers a sync once it has everything that the leader had committed.
func (z *ZooKeeper) Sync(ctx context.Context) error {
	return z.failed(ctx, "sync", tree.Root, z.again(ctx, z.sync))
}

// sync makes a sync. The session may have ended before, or end now: sync records the session from before.
func (z *ZooKeeper) sync() error {
	session := z.conn.SessionID()
	_, err := z.conn.Sync(z.full(tree.Root))
	if err == nil {
		z.synced.Store(session)
	}
	return err
}

// fresh makes a call until its answer is of a session that has made a sync. One is enough for a session: no server
// resumes a session that has seen more than the server has. A new session has seen nothing yet.
func (z *ZooKeeper) fresh(f func() error) error {
	for {
		err := f()
		if isAway(err) {
			return err
		}
		if session := z.conn.SessionID(); session != 0 && session == z.synced.Load() {
			return err
		}
		if err := z.sync(); err != nil {
			return err
		}
	}
}

// Node implements [Source].
func (z *ZooKeeper) Node(ctx context.Context, path string) (n Node, found bool, err error) {
	for range rereads {
		var data []byte
		var stat, listStat *zk.Stat
		var list []zk.ACL
		if found, err = z.call(ctx, path, func(path string) (err error) {
			if data, stat, err = z.conn.Get(path); err == nil && stat.EphemeralOwner == 0 {
				list, listStat, err = z.conn.GetACL(path)
			}
			return err
		}); err != nil || !found {
			return Node{}, false, err
		}
		if stat.EphemeralOwner != 0 {
			return Node{Ephemeral: true}, true, nil
		}
		if stat.Czxid != listStat.Czxid {
			continue // deleted and created again in between
		}
		n = Node{
			Data: data, Version: int64(stat.Version), ACLVersion: int64(listStat.Aversion),
			Children: int64(stat.NumChildren), Made: madeOf(stat),
		}
		n.ACL, err = aclOf(list)
		return n, true, err
	}
	return Node{}, false, &RefusalError{Field: "entry", Why: "is deleted and made again all the time at the source"}
}

// Children implements [Source].
func (z *ZooKeeper) Children(ctx context.Context, path string) (c Children, found bool, err error) {
	found, err = z.call(ctx, path, func(path string) error {
		names, stat, failed := z.conn.Children(path)
		if failed != nil {
			return failed
		}
		c = Children{Made: madeOf(stat)}
		for _, name := range names {
			if path != tree.Root || "/"+name != reserved {
				c.Names = append(c.Names, name)
			}
		}
		return nil
	})
	return c, found, err
}

// madeOf returns how many children an entry has had. ZooKeeper counts the changes of children: creations and removals,
// so half of the sum of these changes and the present children were created.
func madeOf(s *zk.Stat) int64 {
	changes := int64(s.Cversion) + int64(s.NumChildren)
	if changes < 0 {
		return changes
	}
	return changes / 2
}

// aclOf returns an access list in the cluster's form. Bits that grant nothing are left out, as the port for ZooKeeper's
// clients does, and addresses are written as the cluster does, so that the two can be compared.
func aclOf(list []zk.ACL) (tree.ACL, error) {
	acl := tree.ACL{}
	for _, g := range list {
		if g.Scheme == "digest" && strings.HasSuffix(g.ID, ":x") {
			return nil, &RefusalError{Field: "acl", Why: "the source hides the hash of a password: give --source-auth " +
				"with its super, or with a user who has the permission a"}
		}
		if p := tree.Permissions(g.Perms & int32(tree.All)); p != 0 { //nolint:gosec // 5 bits
			acl = append(acl, tree.Grant{Permissions: p, Scheme: g.Scheme, ID: g.ID})
		}
	}
	return acl.Expand(nil)
}

// call makes a call about a path, again while the connection is away.
func (z *ZooKeeper) call(ctx context.Context, path string, f func(path string) error) (found bool, err error) {
	full := z.full(path)
	switch err := z.again(ctx, func() error { return z.fresh(func() error { return f(full) }) }); {
	case errors.Is(err, zk.ErrNoNode):
		return false, nil
	case errors.Is(err, zk.ErrNoAuth):
		return false, &RefusalError{Field: "entry", Why: "the source does not let it be read: give --source-auth"}
	case errors.Is(err, zk.ErrInvalidPath):
		return false, &RefusalError{Field: "path", Why: "has characters that ZooKeeper's clients refuse"}
	default:
		return err == nil, z.failed(ctx, "read", path, err)
	}
}

// failed adds the attempted action to the error of a call; nil stays nil.
func (z *ZooKeeper) failed(ctx context.Context, verb, path string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("%s %s at the source: %w", verb, z.full(path), err)
	}
}

// full returns the path in the source's tree.
func (z *ZooKeeper) full(path string) string {
	if z.chroot != "" && path == tree.Root {
		return z.chroot
	}
	return z.chroot + path
}

// again repeats a call until it has an answer, or until the connection was lost for too long or for a permanent reason.
// Its error includes why the connection is lost.
func (z *ZooKeeper) again(ctx context.Context, f func() error) error {
	for began := time.Now(); ; {
		err := f()
		if err == nil || !isAway(err) {
			return err
		}
		if z.link.lasts() || time.Since(began) > z.timeout {
			return errors.Join(err, z.link.failure())
		}
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// isAway reports whether an error says that the connection is lost, which comes back by itself.
func isAway(err error) bool {
	for _, e := range []error{zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrSessionExpired, zk.ErrSessionMoved} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
