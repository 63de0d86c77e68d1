package zk

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"holdfast/session"
	"holdfast/transport/secure"
	"holdfast/tree"
)

// Version is the release of ZooKeeper whose protocol is served, as clients parse it.
const Version = "3.9.0"

// Standing is what four-letter words tell of a node.
type Standing struct {
	// Release is the node's own version.
	Release string
	Leads   bool
	// Members is how many nodes the cluster has.
	Members int
	// Entries, Ephemerals, Bytes and Watches are those of the tree, Sessions those of the cluster.
	Entries, Ephemerals, Bytes, Watches, Sessions int64
	// DataDir, ClientPort and MaxConnections are settings.
	DataDir, ClientPort    string
	MaxConnections         int
	MinTimeout, MaxTimeout time.Duration
	Node                   session.Node
}

// words are the four-letter words that can be allowed.
//
//nolint:gochecknoglobals // a table
var words = map[string]func(s *Server, n *Standing) string{
	"conf": (*Server).conf, "cons": (*Server).cons, "dump": (*Server).dump, "envi": (*Server).envi,
	"isro": (*Server).isro,
	"mntr": (*Server).mntr,
	"ruok": func(*Server, *Standing) string { return "imok" },
	"srvr": (*Server).srvr,
	"stat": (*Server).stat,
	"wchs": (*Server).wchs,
}

// notServing is the answer of a node that serves no requests, and saidAlways are the words that are answered all the
// same. Without: who looks at srvr takes a node that hears of no leader for one that serves, and a client that
// looks for a read-write server goes to it.
const notServing = "This ZooKeeper instance is not currently serving requests\n"

var saidAlways = []string{"envi", "isro", "ruok"} //nolint:gochecknoglobals // a table

// neverAllowed are ZooKeeper's other words. They show what this project shows in its own ways, or change
// something. They are answered like a word that is not allowed, and not taken for the length of a frame.
//
//nolint:gochecknoglobals // a table
var neverAllowed = []string{"crst", "dirs", "gtmk", "hash", "srst", "stmk", "wchc", "wchp"}

// Words returns all four-letter words that can be allowed.
func Words() []string {
	return []string{"conf", "cons", "dump", "envi", "isro", "mntr", "ruok", "srvr", "stat", "wchs"}
}

// CheckWords returns an error unless all are words that can be allowed.
func CheckWords(all []string) error {
	for _, w := range all {
		if !slices.Contains(Words(), w) {
			return fmt.Errorf("%q is no word that is answered", w)
		}
	}
	return nil
}

// word answers a four-letter word, and reports whether the connection began with one (H-01).
func (c *conn) word(head [headBytes]byte) bool {
	name := string(head[:])
	say := words[name]
	if say == nil && !slices.Contains(neverAllowed, name) {
		return false
	}
	text := name + " is not executed because it is not in the whitelist.\n"
	if access := c.server.cfg.Access; access != nil &&
		access.Word(secure.PeerCertificate(c.net), c.net.RemoteAddr()) != nil {
		return true // the guard has counted it, and the connection ends without an answer
	}
	if slices.Contains(c.server.cfg.Words, name) {
		text = notServing
		if slices.Contains(saidAlways, name) || c.server.service.State().Mode != session.ModeNoLeader {
			standing := c.server.cfg.Standing()
			text = say(c.server, &standing)
		}
	}
	_ = c.net.SetWriteDeadline(time.Now().Add(connectWait))
	_, _ = c.net.Write([]byte(text))
	return true
}

// isro says whether the node takes writes, or null if it serves no requests.
func (s *Server) isro(*Standing) string {
	switch s.service.State().Mode {
	case session.ModeReadWrite:
		return "rw"
	case session.ModeReadOnly:
		return "ro"
	case session.ModeNoLeader:
	}
	return "null"
}

// role returns the node's part in the cluster, as ZooKeeper names it.
func (s *Server) role(n *Standing) string {
	switch {
	case s.service.State().Mode == session.ModeReadOnly:
		return "read-only"
	case n.Members == 1:
		return "standalone"
	case n.Leads:
		return "leader"
	default:
		return "follower"
	}
}

// version returns the version that clients parse, with the node's own behind it. Some parse the date too, in the form
// of ZooKeeper 3.5; a build here has none.
func (n *Standing) version() string {
	release := strings.Trim(unparsed.ReplaceAllString(n.Release, "-"), "-")
	return Version + "-holdfast-" + release + ", built on 01/01/1970 00:00 UTC"
}

// unparsed is what clients do not expect in a version.
var unparsed = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// zxid returns the newest index that the node has applied, as a stamp.
func (s *Server) zxid() uint64 { return uint64(tree.StampAt(s.service.State().Index, 0)) }

func (s *Server) srvr(n *Standing) string {
	return fmt.Sprintf("Zookeeper version: %s\nLatency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\n"+
		"Outstanding: %d\nZxid: 0x%x\nMode: %s\nNode count: %d\n",
		n.version(), s.stats.requests.Load(), s.stats.replies.Load(), s.stats.connections.Load(), s.outstanding(),
		s.zxid(), s.role(n), n.Entries)
}

// outstanding counts the requests that wait for the cluster.
func (s *Server) outstanding() (n int) {
	for _, c := range s.all() {
		n += c.line.outstanding()
	}
	return n
}

// outstanding counts the requests that have no answer yet.
func (l *line) outstanding() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.under) + len(l.waiting)
}

func (s *Server) mntr(n *Standing) string {
	var b strings.Builder
	for _, one := range []struct {
		name  string
		value any
	}{
		{"version", n.version()},
		{"server_state", s.role(n)},
		{"uptime", time.Since(s.began).Milliseconds()},
		{"packets_received", s.stats.requests.Load()},
		{"packets_sent", s.stats.replies.Load()},
		{"num_alive_connections", s.stats.connections.Load()},
		{"outstanding_requests", s.outstanding()},
		{"znode_count", n.Entries},
		{"watch_count", n.Watches},
		{"ephemerals_count", n.Ephemerals},
		{"approximate_data_size", n.Bytes},
		{"global_sessions", n.Sessions},
		{"auth_failed_count", s.stats.unauthentic.Load()},
		{"max_client_cnxns", n.MaxConnections},
	} {
		fmt.Fprintf(&b, "zk_%s\t%v\n", one.name, one.value)
	}
	return b.String()
}

func (s *Server) envi(n *Standing) string {
	return "Environment:\nzookeeper.version=" + n.version() + "\n"
}

func (s *Server) conf(n *Standing) string {
	return fmt.Sprintf("clientPort=%s\ndataDir=%s\nmaxClientCnxns=%d\nminSessionTimeout=%d\nmaxSessionTimeout=%d\n"+
		"serverId=%d\n", n.ClientPort, n.DataDir, n.MaxConnections, toldTimeout(n.MinTimeout).Milliseconds(),
		toldTimeout(n.MaxTimeout).Milliseconds(), n.Node)
}

// stat is srvr with the connections, of each its counters alone.
func (s *Server) stat(n *Standing) string {
	version, rest, _ := strings.Cut(s.srvr(n), "\n")
	return version + "\nClients:\n" + s.clients(func(session.ID, time.Duration, *conn) string { return "" }) + "\n" + rest
}

// cons lists the connections with a session. What is not kept of each request is as before the first one.
func (s *Server) cons(*Standing) string {
	return s.clients(func(id session.ID, timeout time.Duration, c *conn) string {
		return fmt.Sprintf(",sid=0x%x,lop=NA,est=%d,to=%d,lcxid=0x0,lzxid=0xffffffffffffffff,lresp=0,llat=0,minlat=0,"+
			"avglat=0,maxlat=0", uint64(id), c.began.UnixMilli(), timeout.Milliseconds())
	})
}

// clients lists the connections with a session: their counters, and more of each.
func (s *Server) clients(more func(session.ID, time.Duration, *conn) string) string {
	var b strings.Builder
	for _, c := range s.all() {
		id, timeout, received := c.seen()
		if id == 0 {
			continue
		}
		fmt.Fprintf(&b, " /%s[1](queued=%d,recved=%d,sent=%d%s)\n", addressOf(c.net), c.line.outstanding(), received,
			c.out.figures.sent.Load(), more(id, timeout, c))
	}
	return b.String()
}

// dump lists the sessions of this node's connections. What the cluster knows of sessions is told by its own command
// line, with the remaining time of each.
func (s *Server) dump(*Standing) string {
	ids := make([]session.ID, 0, 16)
	for _, c := range s.all() {
		if id, _, _ := c.seen(); id != 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	var b strings.Builder
	fmt.Fprintf(&b, "SessionTracker dump:\nSessions of this server's connections (%d):\n", len(ids))
	for _, id := range ids {
		fmt.Fprintf(&b, "0x%x\n", uint64(id))
	}
	return b.String()
}

func (s *Server) wchs(n *Standing) string {
	return fmt.Sprintf("%d connections\nTotal watches:%d\n", s.stats.connections.Load(), n.Watches)
}

// seen returns what is shown of a connection; 0 before it has a session.
func (c *conn) seen() (id session.ID, timeout time.Duration, received int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown.id, c.shown.timeout, c.line.received.Load()
}
