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

// InFlight says what the client does with a request in flight whose answer cannot come any more, because the connection
// was lost or left, or a node lost its leadership.
type InFlight uint8

const (
	// RepeatInFlight sends the request again, through whichever node serves next. This is safe: the cluster recognizes
	// an open by its request id (O2), a resume by its attempt (M1), and a close by the attachment that it ends (M2).
	RepeatInFlight InFlight = iota
	// FailInFlight ends the call with [session.ErrOutcomeUnknown]: the request may or may not have taken effect. The
	// client does not keep a session alive whose open or resume ended so. It still repeats the resumes by which it
	// moves the sessions that it holds, all reads, and writes with [UntilAnswered], as are those of package recipes.
	FailInFlight
)

// Config says how a client reaches its cluster. Set either Endpoints or ConnectString; all else has defaults.
type Config struct {
	// Endpoints are the client addresses of 1 to [MaxServers] nodes, each once: host names or IP addresses as in
	// [ParseConnectString], but always with a port, and used as they are written. With more than one address the client
	// can move before a node has told it other addresses. [New] copies the list.
	Endpoints []string
	// ConnectString is another form of Endpoints, see [ParseConnectString]. It may also name a chroot.
	ConnectString string
	// OnlyEndpoints has the client connect to no other addresses than Endpoints. Without it a client learns the client
	// addresses of all members of the cluster from the node that serves it, and again from time to time. It tries them
	// after the Endpoints when its node is lost. So a client that was given one endpoint survives the death of that
	// node. Learnt addresses that this client cannot reach, such as names inside of a container network, cost it little.
	// Calls that only one node can answer go to that node all the same: [Client.Kill] of its local sessions,
	// [ConnectionOf] and [SessionsOf].
	OnlyEndpoints bool
	// Dial connects to an address; nil is TCP. It must be safe for concurrent use.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Resolve returns all IP addresses of a host name. Each round over the servers calls it again, and tries its
	// answers in random order. It must be safe for concurrent use. nil is the system's resolver, or no resolver if Dial
	// is set: then Dial gets the names.
	Resolve func(ctx context.Context, host string) ([]string, error)
	// TLS speaks TLS with the nodes; nil does not.
	TLS *TLS
	// Instance names this client process in resumes (M1). It is 64 random bits that no other process, now or earlier,
	// has; 0 draws them from crypto/rand.
	Instance uint64
	// Logger gets lines about connections and moves, never about touches. nil is silence.
	Logger hclog.Logger
	// MinBackoff and MaxBackoff bound the waits between rounds over all endpoints, and between repeats of a request.
	// The first three waits in a row are each drawn evenly from 0 to MinBackoff ("full jitter"), because a fail-over
	// takes no longer. For each further wait the bound doubles, up to MaxBackoff and to a sixth of the shortest timeout of
	// a session. 0 is the default. Apart from them, a client that has left more than five connections in a row, each
	// within a second of coming to it, waits before the next: up to HedgeDelay, and up to 1/24 of its shortest timeout.
	MinBackoff, MaxBackoff time.Duration
	// ConnectTimeout bounds one attempt to connect, and one attempt of a single call at one node. A sixth of the
	// smallest session timeout bounds attempts to connect too. 0 is [DefaultConnectTimeout].
	ConnectTimeout time.Duration
	// HedgeDelay is the time from one attempt to connect to the next one, which runs beside it. A twenty-fourth of the
	// smallest session timeout bounds it too. The client uses the first connection that is up and closes the others. 0
	// is [DefaultHedgeDelay].
	HedgeDelay time.Duration
	// ReadOnly allows read-only nodes: nodes that hear of no leader and have the setting read_only on. Without it the
	// client passes over such nodes.
	//
	// [Client.Get] and [Client.List] then return the answer of a read-only node when no node with a leader answers.
	// They ask the nodes beside each other, each a HedgeDelay after the one before, or sooner. Once a read-only node
	// has answered, the others get at most another second. For the next two seconds reads go to this read-only node
	// first. The State of a result says what kind of node answered.
	//
	// Watches of [Tree.Watch] begin and go on at such a node while the client finds no better one: they tell what has come
	// to it. A better node then tells what it has missed. Reads of the tree ask for old answers one by one: [AllowStale].
	//
	// Sessions are [StateConnectedReadOnly] while the client is connected to such a node and finds no better one.
	// Writes, including opens and resumes, wait for a read-write node. So a session has no id before the client has
	// found a read-write node.
	ReadOnly bool
	// OnNode, when set, is called each time when the connection for sessions is at another node, or its node changes
	// its mode. It gets the node's address, and the last state that the node told, zero before the node has told one.
	// All is zero without a connection.
	//
	// The client's own goroutine calls OnNode; in a [Pool] the goroutine of each connection does. It must return soon,
	// and must not call the client. The client touches no session until OnNode returns. Contexts of sessions end in
	// time all the same. The end of the client does not call OnNode.
	OnNode func(address string, state session.NodeState)
	// InFlight says what the client does with requests on a connection that is lost.
	InFlight InFlight
	// Principal names this client to the nodes: at most [session.MaxPrincipal] printable ASCII characters, without a
	// space at either end. Clients with the same name share one budget at each node
	// (max_arrivals_per_second_per_principal). Nodes do not verify the name: it makes clients that mean well share
	// fairly. Empty is no name.
	Principal string
	// Digests are the names and passwords, as NAME:PASSWORD, by which access lists of the tree know the client (P1): at
	// most [MaxDigests], each printable ASCII of at most [MaxDigestBytes]. The client sends them with each connection for
	// sessions and the tree, so they are as secret as that connection.
	Digests []string
	// Token returns the bearer token by which nodes know the client, see [TokenFile]; nil sends none. Nodes with the
	// setting auth refuse clients without a token or a certificate with [session.ErrUnauthenticated].
	Token TokenSource
	// PlainToken lets the client send its token over connections without TLS, where everybody on the way can read it.
	// [New] refuses a Token without TLS otherwise.
	PlainToken bool
	// Trace returns the caller's place in a trace, as W3C's traceparent: nodes that trace make their spans of the call
	// below it. [Client.Open], [Client.Resume], [Session.Upgrade], [Session.Close], the writes of a [Tree] and each call
	// at a node without a session's connection call it, with their context. It must return soon and be safe for concurrent
	// use. Empty is none, and so is anything else that is not a traceparent. nil names none.
	// See docs/clients.md for an application with OpenTelemetry: the SDK itself does not link it.
	Trace func(ctx context.Context) string
	// Rand is the source of the waits and of the order of the endpoints; nil is a source seeded by crypto/rand. The
	// client uses it under a lock, so it need not be safe for concurrent use.
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
				err, &session.FieldError{Field: "endpoints", Limit: "must be empty beside a connect string"},
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
	if cfg.Principal != "" && !wire.ValidPrincipal(cfg.Principal) {
		errs = append(errs, &session.FieldError{Field: "principal", Limit: wire.PrincipalLimit()})
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

// Bounds of [Config].Digests: their number, and the bytes of each.
const (
	MaxDigests     = 8
	MaxDigestBytes = 256
)

// checkDigests checks what the client authenticates with. The error does not show passwords.
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
