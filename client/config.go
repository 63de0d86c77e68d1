package client

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/transport/wire"
)

// Defaults of [Config].
const (
	DefaultMinBackoff     = 50 * time.Millisecond
	DefaultMaxBackoff     = 2 * time.Second
	DefaultConnectTimeout = 3 * time.Second
	DefaultHedgeDelay     = 250 * time.Millisecond
)

// InFlight decides about a request in flight whose answer can no longer arrive, because the connection was lost or
// left, or a node lost its leadership.
type InFlight uint8

const (
	// RepeatInFlight sends the request again, through the node that serves next. The repeat is safe: the cluster
	// recognizes an open by its request id (O2 idempotent opens), a resume by its attempt (M1 a resume is a move), and
	// a close by the attachment that it ends (M2 commands name their attachment).
	RepeatInFlight InFlight = iota
	// FailInFlight ends the call with [session.ErrOutcomeUnknown]: the request may or may not have taken effect. The
	// client does not keep the session of such an open or resume alive. The client still repeats its own resumes of
	// held sessions, all reads, and writes with [UntilAnswered], which package recipes uses for its writes.
	FailInFlight
)

// Config describes how a client reaches its cluster. Set either Endpoints or ConnectString; all else has defaults.
type Config struct {
	// Endpoints are the client addresses of 1 to [MaxServers] nodes, without duplicates: host names or IP addresses as
	// in [ParseConnectString], but always with a port, and used as written. With more than one address the client can
	// move before a node has named further addresses. [New] copies the list.
	Endpoints []string
	// ConnectString is another form of Endpoints, see [ParseConnectString]. A ConnectString may also name a chroot.
	ConnectString string
	// OnlyEndpoints limits the client to the addresses in Endpoints. By default a client learns the client addresses of
	// all members from the node that serves it, again from time to time, and tries them after the Endpoints when the
	// node is lost. So a client with one configured endpoint survives the death of that node. Unreachable learnt
	// addresses, such as names inside a container network, cost little. Calls that only one node can answer go to that
	// node in any case: [Client.Kill] of its local sessions, [ConnectionOf] and [SessionsOf].
	OnlyEndpoints bool
	// Dial connects to an address; nil is TCP. It must be safe for concurrent use.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Resolve returns all IP addresses of a host name. Each round over the servers calls Resolve again, and tries the
	// addresses in random order. It must be safe for concurrent use. nil is the system's resolver, or no resolver if
	// Dial is set: Dial then gets the names.
	Resolve func(ctx context.Context, host string) ([]string, error)
	// TLS speaks TLS with the nodes; nil does not.
	TLS *TLS
	// Instance identifies this client process in resumes (M1). It is 64 random bits, different for every process, now
	// or earlier; 0 draws them from crypto/rand.
	Instance uint64
	// Logger gets lines about connections and moves, never about touches. nil is silence.
	Logger hclog.Logger
	// MinBackoff and MaxBackoff bound the waits between rounds over all endpoints, and between repeats of a request.
	// The first three waits in a row are each drawn evenly from 0 to MinBackoff ("full jitter"), because a fail-over
	// takes no longer. For each further wait the bound doubles, up to MaxBackoff and to a sixth of the shortest timeout
	// of a session. 0 is the default. Separately, a client that has left more than five connections in a row, each
	// within a second of its start, waits before the next connection: up to HedgeDelay, and up to 1/24 of its shortest
	// timeout.
	MinBackoff, MaxBackoff time.Duration
	// ConnectTimeout bounds one attempt to connect, and one attempt of a single call at one node. A sixth of the
	// smallest session timeout bounds attempts to connect too. 0 is [DefaultConnectTimeout].
	ConnectTimeout time.Duration
	// HedgeDelay is the delay before the client starts another attempt to connect, in parallel with the pending
	// attempts. A twenty-fourth of the smallest session timeout bounds the delay too. The client uses the first
	// connection that is up and closes the others. 0 is [DefaultHedgeDelay].
	HedgeDelay time.Duration
	// ReadOnly allows read-only nodes: nodes that know no leader and have the setting read_only on. By default the
	// client skips such nodes.
	//
	// With ReadOnly, [Client.Get] and [Client.List] return the answer of a read-only node when no node with a leader
	// answers. The client asks the nodes in parallel, each a HedgeDelay after the previous node, or sooner. Once a
	// read-only node has answered, the other nodes get at most another second. For the next two seconds reads go to
	// this read-only node first. The State of a result shows the mode of the node that answered.
	//
	// Watches of [Tree.Watch] start and continue at a read-only node while the client finds no better node; they
	// deliver the changes that have reached the read-only node. A better node later delivers the missed changes. Reads
	// of the tree allow old answers individually: [AllowStale].
	//
	// Sessions are [StateConnectedReadOnly] while the client is connected to a read-only node and finds no better node.
	// Writes, including opens and resumes, wait for a read-write node. So a session has no id before the client has
	// found a read-write node.
	ReadOnly bool
	// OnNode, when set, is called whenever the connection for sessions is at another node, or its node changes its
	// mode. OnNode gets the node's address and the node's last reported state, which is zero before the first report.
	// Both are zero without a connection.
	//
	// The client's own goroutine calls OnNode; in a [Pool] the goroutine of each connection does. It must return soon,
	// and must not call the client. The client touches no session until OnNode returns. Contexts of sessions end in
	// time all the same. The end of the client does not call OnNode.
	OnNode func(address string, state session.NodeState)
	// InFlight decides about requests on a lost connection.
	InFlight InFlight
	// ClientName is the name of this client: at most [session.MaxClientName] printable ASCII characters, without a space
	// at either end. Clients with the same name share one rate limit at each node
	// (max_opens_and_resumes_per_second_per_client). Nodes do not verify the name: the limit only keeps well-meaning
	// clients fair. Empty is no name.
	ClientName string
	// Digests are names and passwords, as NAME:PASSWORD, by which access lists of the tree identify the client (P1
	// principals): at most [MaxDigests], each printable ASCII of at most [MaxDigestBytes]. The client sends them on
	// each connection for sessions and the tree, so digests are only as secret as that connection.
	Digests []string
	// Token returns the bearer token by which nodes know the client, see [TokenFile]; nil sends none. Nodes with the
	// setting auth refuse clients without a token or a certificate with [session.ErrUnauthenticated].
	Token TokenSource
	// TokenWithoutTLS allows the client to send its token without TLS, where anyone on the network path can read the token.
	// Otherwise [New] refuses a Token without TLS.
	TokenWithoutTLS bool
	// Trace returns the caller's W3C traceparent: nodes that trace make their spans children of this span.
	// [Client.Open], [Client.Resume], [Session.Upgrade], [Session.Close], the writes of a [Tree] and each call outside
	// a session's connection call Trace with their context. Trace must return soon and be safe for concurrent use.
	// Nodes ignore empty and malformed values. nil means no trace. docs/clients.md shows an application with
	// OpenTelemetry: the SDK itself does not link OpenTelemetry.
	Trace func(ctx context.Context) string
	// Rand is the source of randomness for waits and for the order of the endpoints; nil is a source seeded by
	// crypto/rand. The client serializes its use, so a Rand need not be safe for concurrent use.
	Rand rand.Source

	// dialer makes the connections, over Dial.
	dialer dialer
}

// complete checks the configuration and fills in the defaults. The error joins every fault.
func complete(cfg Config) (Config, error) {
	var errs []error
	if cfg.ConnectString != "" {
		parsed, err := ParseConnectString(cfg.ConnectString)
		if len(cfg.Endpoints) > 0 {
			err = errors.Join(
				err, &session.FieldError{Field: "endpoints", Limit: "must be empty with a connect string"},
			)
		}
		errs = append(errs, err)
		cfg.Endpoints = parsed.Servers
		cfg.OnlyEndpoints = cfg.OnlyEndpoints || parsed.OnlyServers
	} else {
		errs = append(errs, checkEndpoints(cfg.Endpoints))
	}
	errs = append(errs, notNegative("min backoff", cfg.MinBackoff), notNegative("max backoff", cfg.MaxBackoff),
		notNegative("connect timeout", cfg.ConnectTimeout), notNegative("hedge delay", cfg.HedgeDelay))
	if cfg.InFlight > FailInFlight {
		errs = append(errs, &session.FieldError{Field: "in flight", Limit: "RepeatInFlight or FailInFlight"})
	}
	if cfg.ClientName != "" && !wire.ValidClientName(cfg.ClientName) {
		errs = append(errs, &session.FieldError{Field: "client_name", Limit: wire.ClientNameLimit()})
	}
	errs = append(errs, checkDigests(cfg.Digests))
	connects, err := newDialer(cfg.TLS, cfg.Dial, cfg.Logger)
	errs = append(errs, err)
	errs = append(errs, checkToken(&cfg))
	cfg.Token = cfg.Token.checked()
	if err := errors.Join(errs...); err != nil {
		return Config{}, err
	}
	cfg.Endpoints, cfg.Digests = slices.Clone(cfg.Endpoints), slices.Clone(cfg.Digests)
	if cfg.Resolve == nil && cfg.Dial == nil {
		cfg.Resolve = net.DefaultResolver.LookupHost
	}
	cfg.dialer, cfg.Dial = connects, connects.DialContext
	setDefault(&cfg.HedgeDelay, DefaultHedgeDelay)
	setDefault(&cfg.MinBackoff, DefaultMinBackoff)
	setDefault(&cfg.MaxBackoff, max(DefaultMaxBackoff, cfg.MinBackoff))
	setDefault(&cfg.ConnectTimeout, DefaultConnectTimeout)
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	cfg.Logger = cfg.Logger.Named("client")
	for cfg.Instance == 0 {
		cfg.Instance = randomUint64()
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.NewPCG(randomUint64(), randomUint64())
	}
	return cfg, nil
}

// Bounds of [Config].Digests.
const (
	MaxDigests     = 8
	MaxDigestBytes = 256
)

// checkDigests validates digests. The error does not show passwords.
func checkDigests(digests []string) error {
	if len(digests) > MaxDigests {
		return &session.FieldError{Field: "digests", Limit: fmt.Sprintf("at most %d", MaxDigests)}
	}
	for i, d := range digests {
		name, _, ok := strings.Cut(d, ":")
		printable := strings.IndexFunc(d, func(r rune) bool { return r < ' ' || r > '~' }) < 0
		if !ok || name == "" || !printable || len(d) > MaxDigestBytes || strings.TrimSpace(d) != d {
			return &session.FieldError{
				Field: fmt.Sprintf("digests[%d]", i),
				Limit: fmt.Sprintf("NAME:PASSWORD, at most %d printable ASCII characters, no space at either end",
					MaxDigestBytes),
			}
		}
	}
	return nil
}

// checkEndpoints checks a list of servers. The error joins every fault.
func checkEndpoints(endpoints []string) error {
	var errs []error
	if len(endpoints) == 0 || len(endpoints) > MaxServers {
		errs = append(
			errs, &session.FieldError{Field: "endpoints", Limit: fmt.Sprintf("1 to %d times host:port", MaxServers)},
		)
	}
	seen := make(map[string]bool, len(endpoints))
	for _, e := range endpoints {
		address, limit := parseServer(e, "")
		if limit == "" && seen[address] {
			limit = fmt.Sprintf("must name each server once, not %q twice", address)
		}
		if limit != "" {
			errs = append(errs, &session.FieldError{Field: "endpoints", Limit: limit})
		}
		seen[address] = true
	}
	return errors.Join(errs...)
}

// notNegative returns an error if the duration of a field is negative.
func notNegative(field string, d time.Duration) error {
	if d < 0 {
		return &session.FieldError{Field: field, Limit: fmt.Sprintf("positive, or 0 for the default, not %v", d)}
	}
	return nil
}

func setDefault(d *time.Duration, v time.Duration) {
	if *d == 0 {
		*d = v
	}
}

func randomUint64() uint64 {
	var b [8]byte
	_, _ = crand.Read(b[:]) // never fails: it ends the process first
	return binary.LittleEndian.Uint64(b[:])
}

func newRequestID() session.RequestID {
	var id session.RequestID
	_, _ = crand.Read(id[:]) // never fails: it ends the process first
	return id
}

// placeOf returns the place of a call in a trace, nil for none.
func placeOf(ctx context.Context, c *Config) *session.Trace {
	if c.Trace == nil {
		return nil
	}
	return session.ParseTrace(c.Trace(ctx))
}
