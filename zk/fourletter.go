package zk

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"holdfast/session"
	"holdfast/transport/secure"
	"holdfast/tree"
	"holdfast/zk/frames"
)

// Version is the ZooKeeper release whose protocol the node serves, in the form that clients parse.
const Version = "3.9.0"

// NodeStats holds the figures of a node for the answers to four-letter words.
type NodeStats struct {
	// Release is the node's own version.
	Release string
	Leads   bool
	// Members is how many nodes the cluster has.
	Members int
	// Entries, Ephemerals, Bytes and Watches count the tree's, Sessions the cluster's.
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
var words = map[string]func(s *Server, n *NodeStats) string{
	"conf": (*Server).conf, "cons": (*Server).cons, "dump": (*Server).dump, "envi": (*Server).envi,
	"isro": (*Server).isro,
	"mntr": (*Server).mntr,
	"ruok": func(*Server, *NodeStats) string { return "imok" },
	"srvr": (*Server).srvr,
	"stat": (*Server).stat,
	"wchs": (*Server).wchs,
}

// notServing is the answer of a node that serves no requests. The words of alwaysAnswered are answered all the same
// . Without notServing, a node that knows no leader would look like a serving node, and a client that searches
// for a read-write server would go there.
const notServing = "This ZooKeeper instance is not currently serving requests\n"

var alwaysAnswered = []string{"envi", "isro", "ruok"} //nolint:gochecknoglobals // a table

// neverAllowed are ZooKeeper's other words: this project shows the same facts in other ways, or the words change
// something. The node answers them like a word that is not allowed, and does not read them as the length of a frame.
//
//nolint:gochecknoglobals // a table
var neverAllowed = []string{"crst", "dirs", "gtmk", "hash", "srst", "stmk", "wchc", "wchp"}

// Words returns all four-letter words that can be allowed.
func Words() []string {
	return []string{"conf", "cons", "dump", "envi", "isro", "mntr", "ruok", "srvr", "stat", "wchs"}
}

// CheckWords returns an error unless all words can be allowed.
func CheckWords(all []string) error {
	for _, w := range all {
		if !slices.Contains(Words(), w) {
			return fmt.Errorf("%q is not one of the four-letter words that can be allowed", w)
		}
	}
	return nil
}

// answerFourLetterWord answers a four-letter word, and reports whether the connection started with one (H-01).
func (c *conn) answerFourLetterWord(head [frames.HeadBytes]byte) bool {
	name := string(head[:])
	say := words[name]
	if say == nil && !slices.Contains(neverAllowed, name) {
		return false
	}
	text := name + " is not executed because it is not in the whitelist.\n"
	if access := c.server.cfg.Access; access != nil &&
		access.Word(secure.PeerCertificate(c.net), c.net.RemoteAddr()) != nil {
		return true // access has counted the refusal, and the connection ends without an answer
	}
	if slices.Contains(c.server.cfg.Words, name) {
		text = notServing
		if slices.Contains(alwaysAnswered, name) || c.server.mode() != session.ModeNoLeader {
			stats := c.server.cfg.NodeStats()
			text = say(c.server, &stats)
		}
	}
	_ = c.net.SetWriteDeadline(time.Now().Add(connectWait))
	_, _ = c.net.Write([]byte(text))
	return true
}

// isro reports whether the node accepts writes, or null if it serves no requests.
func (s *Server) isro(*NodeStats) string {
	switch s.mode() {
	case session.ModeReadWrite:
		return "rw"
	case session.ModeReadOnly:
		return "ro"
	case session.ModeNoLeader:
	}
	return "null"
}

// role returns ZooKeeper's name for the node's role.
func (s *Server) role(n *NodeStats) string {
	switch {
	case s.mode() == session.ModeReadOnly:
		return "read-only"
	case n.Members == 1:
		return "standalone"
	case n.Leads:
		return "leader"
	default:
		return "follower"
	}
}

// version returns the version that clients parse, followed by the node's own. Some clients parse the date too, in the
// form of ZooKeeper 3.5; a build here has no date.
func (n *NodeStats) version() string {
	release := strings.Trim(unparsed.ReplaceAllString(n.Release, "-"), "-")
	return Version + "-holdfast-" + release + ", built on 01/01/1970 00:00 UTC"
}

// unparsed matches characters that clients do not expect in a version.
var unparsed = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// zxid returns the newest index that the node has applied, as a stamp.
func (s *Server) zxid() uint64 { return uint64(tree.StampAt(s.service.State().Index, 0)) }

func (s *Server) srvr(n *NodeStats) string {
	return fmt.Sprintf("Zookeeper version: %s\nLatency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\n"+
		"Outstanding: %d\nZxid: 0x%x\nMode: %s\nNode count: %d\n",
		n.version(), s.counters.requests.Load(), s.counters.writer.Replies.Load(), s.counters.connections.Load(),
		s.outstanding(), s.zxid(), s.role(n), n.Entries)
}

// outstanding counts the requests that are not answered.
func (s *Server) outstanding() (n int) {
	for _, c := range s.all() {
		n += c.queue.Outstanding()
	}
	return n
}

func (s *Server) mntr(n *NodeStats) string {
	var b strings.Builder
	for _, one := range []struct {
		name  string
		value any
	}{
		{"version", n.version()},
		{"server_state", s.role(n)},
		{"uptime", time.Since(s.began).Milliseconds()},
		{"packets_received", s.counters.requests.Load()},
		{"packets_sent", s.counters.writer.Replies.Load()},
		{"num_alive_connections", s.counters.connections.Load()},
		{"outstanding_requests", s.outstanding()},
		{"znode_count", n.Entries},
		{"watch_count", n.Watches},
		{"ephemerals_count", n.Ephemerals},
		{"approximate_data_size", n.Bytes},
		{"global_sessions", n.Sessions},
		{"auth_failed_count", s.counters.operations.AuthFailed.Load()},
		{"max_client_cnxns", n.MaxConnections},
	} {
		fmt.Fprintf(&b, "zk_%s\t%v\n", one.name, one.value)
	}
	return b.String()
}

func (s *Server) envi(n *NodeStats) string {
	return "Environment:\nzookeeper.version=" + n.version() + "\n"
}

func (s *Server) conf(n *NodeStats) string {
	return fmt.Sprintf("clientPort=%s\ndataDir=%s\nmaxClientCnxns=%d\nminSessionTimeout=%d\nmaxSessionTimeout=%d\n"+
		"serverId=%d\n", n.ClientPort, n.DataDir, n.MaxConnections, timeoutForClient(n.MinTimeout).Milliseconds(),
		timeoutForClient(n.MaxTimeout).Milliseconds(), n.Node)
}

// stat is srvr with the counters of each connection.
func (s *Server) stat(n *NodeStats) string {
	version, rest, _ := strings.Cut(s.srvr(n), "\n")
	return version + "\nClients:\n" + s.clients(func(*conn) string { return "" }) + "\n" + rest
}

// cons lists the connections with a session. The node keeps no figures of single requests, so cons shows the
// figures of a connection before its first request.
func (s *Server) cons(*NodeStats) string {
	return s.clients(func(c *conn) string {
		return fmt.Sprintf(",sid=0x%x,lop=NA,est=%d,to=%d,lcxid=0x0,lzxid=0xffffffffffffffff,lresp=0,llat=0,minlat=0,"+
			"avglat=0,maxlat=0", uint64(c.session.id()), c.began.UnixMilli(), c.session.clientTimeout.Milliseconds())
	})
}

// clients lists the connections with a session: the counters of each, and the result of more.
func (s *Server) clients(more func(*conn) string) string {
	var b strings.Builder
	for _, c := range s.all() {
		if c.session.id() == 0 {
			continue
		}
		fmt.Fprintf(&b, " /%s[1](queued=%d,recved=%d,sent=%d%s)\n", addressOf(c.net), c.queue.Outstanding(),
			c.received.Load(), c.writer.Replies(), more(c))
	}
	return b.String()
}

func addressOf(n net.Conn) string {
	if a := n.RemoteAddr(); a != nil {
		return a.String()
	}
	return ""
}

// dump lists the sessions of this node's connections. The cluster's own command line lists all sessions, with the
// remaining time of each.
func (s *Server) dump(*NodeStats) string {
	ids := make([]session.ID, 0, 16)
	for _, c := range s.all() {
		if id := c.session.id(); id != 0 {
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

func (s *Server) wchs(n *NodeStats) string {
	return fmt.Sprintf("%d connections\nTotal watches:%d\n", s.counters.connections.Load(), n.Watches)
}
