package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"holdfast/session"
	"holdfast/transport/raftnet"
)

// setting is one row of the table that flags, environment, files, checks and documentation are made from.
type setting struct {
	// name is the key in a file; the flag has hyphens, the variable is upper case after HOLDFAST_.
	name string
	// def is the default as it would be written; empty when there is none, or when derived says where it comes from.
	def, derived string
	kind, help   string
	// limit is the range in words, and ok whether a configuration is in it.
	limit string
	ok    func(c *Config) bool
	value func(c *Config) pflag.Value
}

func (s setting) flag() string     { return strings.ReplaceAll(s.name, "_", "-") }
func (s setting) variable() string { return envPrefix + strings.ToUpper(s.name) }

// fallback is what stands in for a value that nobody gave.
func (s setting) fallback() string { return cmp.Or(s.def, s.derived) }

const (
	clusterIDLimit = "1 to 64 of a-z A-Z 0-9 . _ -"
	listenLimit    = "HOST:PORT or :PORT, port 1 to 65535"
	peersLimit     = "1 to 254 nodes, such as 1=n1,2=n2,3=n3: see docs/configuration.md#peers"
)

// settings returns the table, in the order in which it is documented.
func settings() []setting {
	return slices.Concat(identitySettings(), listenSettings(), sessionSettings(), localSettings(), readSettings(),
		raftSettings(), clientSettings(), gateSettings(), otherSettings())
}

func identitySettings() []setting {
	return []setting{
		{
			name: "node", kind: "number", limit: "1 to 254", help: "number of this node, one of peers; required",
			ok:    func(c *Config) bool { return c.Node.Valid() },
			value: func(c *Config) pflag.Value { return nodeValue(&c.Node) },
		},
		word("cluster_id", "holdfast", clusterIDLimit, validClusterID,
			func(c *Config) *string {
				return &c.ClusterID
			}).helps("name of the cluster; nodes of another cluster are refused"),
		word("data_dir", "", "a path", func(s string) bool { return s != "" },
			func(c *Config) *string {
				return &c.DataDir
			}).helps("directory of this node alone, made if missing; required"),
		{
			name: "peers", kind: "peers", limit: peersLimit,
			help:  "all nodes of the cluster, the same on every node; required",
			ok:    func(c *Config) bool { return len(c.Peers) > 0 && len(c.Peers) <= int(session.MaxNode) },
			value: func(c *Config) pflag.Value { return peersValue(&c.Peers) },
		},
	}
}

func listenSettings() []setting {
	listen := func(name, def string, at func(c *Config) *string) setting {
		s := word(name, def, listenLimit, validListen, at)
		s.kind = "address"
		return s
	}
	return []setting{
		listen("client_listen", ":7400", func(c *Config) *string { return &c.ClientListen }).helps("clients: gRPC"),
		listen("raft_listen", ":7401", func(c *Config) *string { return &c.RaftListen }).helps("peers: Raft"),
		listen("peer_listen", ":7402", func(c *Config) *string {
			return &c.PeerListen
		}).helps("peers: leader and learners, gRPC"),
		listen("http_listen", ":7403", func(c *Config) *string {
			return &c.HTTPListen
		}).helps("HTTP: /metrics and /healthz"),
	}
}

func sessionSettings() []setting {
	return []setting{
		duration("tick", "2s", span[time.Duration]{10 * time.Millisecond, time.Hour},
			func(c *Config) *time.Duration { return &c.Tick }).helps("unit that the limits of timeouts are counted in"),
		duration("heartbeat_interval", "", span[time.Duration]{session.MinInterval, session.MaxInterval},
			func(c *Config) *time.Duration { return &c.HeartbeatInterval }).from("tick/4").
			helps(
				"time between two heartbeat rounds of the leader; keep it above the round trip between nodes; 3 of " +
					"it are below min_timeout",
			),
		duration("min_timeout", "", span[time.Duration]{10 * time.Millisecond, session.MaxTimeout},
			func(c *Config) *time.Duration { return &c.MinTimeout }).from("2 ticks").
			helps("smallest timeout of a session, whole milliseconds; shorter ones are raised to it"),
		duration("max_timeout", "", span[time.Duration]{10 * time.Millisecond, session.MaxTimeout},
			func(c *Config) *time.Duration { return &c.MaxTimeout }).from("20 ticks").
			helps("largest timeout of a session, whole milliseconds; longer ones are lowered to it"),
		duration("expiry_interval", "250ms", span[time.Duration]{50 * time.Millisecond, time.Minute},
			func(c *Config) *time.Duration { return &c.ExpiryInterval }).
			helps("how finely due times are told apart: a session ends at most this much later; at most min_timeout"),
		number("max_sessions", "2000000", span[uint64]{1, session.MaxCapacitySessions},
			func(c *Config) *uint64 { return &c.MaxSessions }).
			helps(
				"sessions of the cluster, and local ones of each node beside them; opens beyond are refused; the " +
					"value of the node that leads counts",
			),
		number("max_state_bytes", "2147483648", span[uint64]{session.MinCapacityBytes, session.MaxCapacityBytes},
			func(c *Config) *uint64 { return &c.MaxStateBytes }).
			helps("memory of each node that sessions with their labels, certificates and remembered request ids may " +
				"take, as the cluster counts, " +
				"and local sessions beside them; opens beyond are refused; the value of the node that leads counts"),
	}
}

// on and off are what a setting that is one of the two is.
const (
	On  = "on"
	Off = "off"
)

func localSettings() []setting {
	return []setting{
		choice("local_sessions", Off, []string{Off, On}, func(c *Config) *string { return &c.LocalSessions }).
			helps(
				"whether clients may open sessions that one node alone knows; the same on every node: others are " +
					"refused",
			),
		choice("local_session_upgrade", On, []string{Off, On}, func(c *Config) *string {
			return &c.LocalSessionUpgrade
		}).
			helps(
				"whether those sessions may be made global, with their id and timeout; the same on every node: " +
					"others are refused",
			),
	}
}

// ClusterSettings are those that all nodes have to have the same value of, as nodes tell each other.
func (c Config) ClusterSettings() []raftnet.Setting {
	var all []raftnet.Setting
	for _, s := range localSettings() {
		all = append(all, raftnet.Setting{Name: s.name, Value: s.value(&c).String(), Default: s.def})
	}
	return all
}

func readSettings() []setting {
	return []setting{
		choice("read_only", Off, []string{Off, On}, func(c *Config) *string { return &c.ReadOnly }).
			helps(
				"whether this node, while it hears of no quorum, serves reads of what it has applied to clients that " +
					"allow that; each node's own",
			),
	}
}

func raftSettings() []setting {
	own := span[time.Duration]{5 * time.Millisecond, time.Minute}
	return []setting{
		duration("raft_heartbeat_timeout", "1s", own,
			func(c *Config) *time.Duration {
				return &c.RaftHeartbeatTimeout
			}).helps("silence of a leader after which a follower stands for election"),
		duration("raft_election_timeout", "1s", own,
			func(c *Config) *time.Duration { return &c.RaftElectionTimeout }).
			helps("time an election gets before the next one; at least raft_heartbeat_timeout"),
		duration("raft_lease_timeout", "500ms", own,
			func(c *Config) *time.Duration { return &c.RaftLeaseTimeout }).
			helps("time without a quorum after which a leader steps down; at most raft_heartbeat_timeout"),
		duration("raft_apply_timeout", "5s", span[time.Duration]{10 * time.Millisecond, time.Hour},
			func(c *Config) *time.Duration { return &c.RaftApplyTimeout }).
			helps("time one log entry gets to commit before its outcome counts as unknown"),
		duration("stall_limit", "3s", span[time.Duration]{100 * time.Millisecond, time.Hour},
			func(c *Config) *time.Duration { return &c.StallLimit }).
			helps("how long a write to the log, or the applying of an entry, may take before the node steps out and " +
				"lets the others elect; " +
				"at least raft_heartbeat_timeout"),
		duration("snapshot_interval", "2m", span[time.Duration]{5 * time.Millisecond, 24 * time.Hour},
			func(c *Config) *time.Duration {
				return &c.SnapshotInterval
			}).helps("how often it is looked whether a snapshot is due"),
		number("snapshot_threshold", "8192", span[uint64]{1, 1 << 40},
			func(c *Config) *uint64 { return &c.SnapshotThreshold }).helps("log entries after which a snapshot is due"),
		number("trailing_logs", "10240", span[uint64]{1, 1 << 40},
			func(c *Config) *uint64 {
				return &c.TrailingLogs
			}).helps("log entries kept after a snapshot, for followers that are behind"),
	}
}

// minLaggingWait leaves a healthy follower time to apply what the leader has answered already: it hears of the commit
// up to commitTimeout later. A node that waits for less refuses opens that were done.
const minLaggingWait = 10 * CommitTimeout

// CommitTimeout is how soon a quiet leader tells followers of a commit.
const CommitTimeout = 10 * time.Millisecond

// minMessageBytes is above what session.MaxTouchBatch tokens take, some 420 KB.
const minMessageBytes = 512 << 10

// minWaitingBytes leaves room for what a few connections may have waiting.
const minWaitingBytes = 64 << 20

func clientSettings() []setting {
	return []setting{
		number("max_message_bytes", "1048576", span[int]{minMessageBytes, 64 << 20},
			func(c *Config) *int { return &c.MaxMessageBytes }).helps("size of one message of a client"),
		number("max_streams_per_connection", "64", span[int]{1, 1 << 16},
			func(c *Config) *int { return &c.MaxStreamsPerConnection }).helps("open calls of one network connection"),
		number("max_streams", "25000", span[int]{1, 10_000_000},
			func(c *Config) *int { return &c.MaxStreams }).
			helps("open calls of all network connections; above it idle connections make room, and calls are refused"),
		number("max_connections", "20000", span[int]{1, 10_000_000},
			func(c *Config) *int { return &c.MaxConnections }).
			helps(
				"network connections of clients to this node; above it idle ones make room, and others are refused; " +
					"file descriptors may allow less",
			),
		number("max_sessions_per_connection", "100000", span[int]{1, 10_000_000},
			func(c *Config) *int {
				return &c.MaxSessionsPerConnection
			}).helps("sessions served through one connection"),
		number("max_requests_per_connection", "1024", span[int]{1, 1 << 14},
			func(c *Config) *int {
				return &c.MaxRequestsPerConnection
			}).helps("requests of one connection that wait for an answer"),
		number("max_waiting_bytes", "268435456", span[int]{minWaitingBytes, 1 << 40},
			func(c *Config) *int { return &c.MaxWaitingBytes }).
			helps(
				"answers that clients have not read, requests under way and incomplete messages, on all connections; " +
					"above it those that hold most end",
			),
		duration("lagging_wait", "1s", span[time.Duration]{minLaggingWait, time.Minute},
			func(c *Config) *time.Duration { return &c.LaggingWait }).
			helps("how long a request waits for this node to catch up with its token; at most min_timeout"),
	}
}

func otherSettings() []setting {
	return []setting{
		duration("shutdown_timeout", "10s", span[time.Duration]{10 * time.Millisecond, time.Hour},
			func(c *Config) *time.Duration { return &c.ShutdownTimeout }).helps("bound of an orderly stop"),
		choice("log_level", "info", []string{"trace", "debug", "info", "warn", "error", "off"},
			func(c *Config) *string { return &c.LogLevel }).helps("least severe log lines that are written"),
		choice("log_format", "text", []string{"text", "json"},
			func(c *Config) *string { return &c.LogFormat }).helps("form of log lines"),
	}
}

func (s setting) helps(help string) setting   { s.help = help; return s }
func (s setting) from(derived string) setting { s.derived = derived; return s }
func validClusterID(s string) bool {
	return len(s) <= 64 && s != "" && strings.Trim(s, clusterIDLetters) == ""
}
func identity[T any](v T) (T, error) { return v, nil }
func (s span[T]) contains(v T) bool  { return s.lo <= v && v <= s.hi }
func (s span[T]) String() string     { return fmt.Sprintf("%v to %v", s.lo, s.hi) }
func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New("must be a duration with a unit, such as 500ms, 2s or 1m")
	}
	return d, nil
}

const clusterIDLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// span is a range, both ends included.
type span[T cmp.Ordered] struct{ lo, hi T }

func duration(name, def string, in span[time.Duration], at func(c *Config) *time.Duration) setting {
	return setting{
		name: name, def: def, kind: "duration", limit: session.FormatDuration(in.lo) + " to " + session.FormatDuration(in.hi),
		ok: func(c *Config) bool { return in.contains(*at(c)) },
		value: func(c *Config) pflag.Value {
			return &text[time.Duration]{at: at(c), kind: "duration", parse: parseDuration, format: session.FormatDuration}
		},
	}
}

func number[T int | uint64](name, def string, in span[T], at func(c *Config) *T) setting {
	parse := func(s string) (T, error) {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil || v < 0 {
			return 0, errors.New("must be a whole number, " + in.String())
		}
		return T(v), nil
	}
	return setting{
		name: name, def: def, kind: "number", limit: in.String(),
		ok: func(c *Config) bool { return in.contains(*at(c)) },
		value: func(c *Config) pflag.Value {
			return &text[T]{at: at(c), kind: "number", parse: parse, format: func(v T) string { return fmt.Sprint(v) }}
		},
	}
}

func word(name, def, limit string, ok func(string) bool, at func(c *Config) *string) setting {
	return setting{
		name: name, def: def, kind: "text", limit: limit,
		ok: func(c *Config) bool { return ok(*at(c)) },
		value: func(c *Config) pflag.Value {
			return &text[string]{at: at(c), kind: "text", parse: identity[string], format: func(s string) string {
				return s
			}}
		},
	}
}

func choice(name, def string, among []string, at func(c *Config) *string) setting {
	return word(name, def, oneOf(among), func(s string) bool { return slices.Contains(among, s) }, at)
}

// oneOf lists words as a sentence does; there are two at least.
func oneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func nodeValue(at *session.Node) pflag.Value {
	return &text[session.Node]{at: at, kind: "number", parse: ParseNode, format: FormatNode}
}

func peersValue(at *[]Peer) pflag.Value {
	return &text[[]Peer]{at: at, kind: "peers", parse: ParsePeers, format: FormatPeers}
}

// text is a value of a configuration as it is written.
type text[T any] struct {
	at     *T
	kind   string
	parse  func(string) (T, error)
	format func(T) string
}

// Set parses s.
func (t *text[T]) Set(s string) error {
	v, err := t.parse(s)
	if err == nil {
		*t.at = v
	}
	return err
}

// String is the inverse of Set.
func (t *text[T]) String() string { return t.format(*t.at) }

// Type is the kind of value, for people.
func (t *text[T]) Type() string { return t.kind }
