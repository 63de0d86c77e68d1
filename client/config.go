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

// InFlight says what becomes of a request that was sent and whose answer cannot come any more, because the connection
// was lost or left, or a node lost its leadership.
type InFlight uint8

const (
	// RepeatInFlight has it sent again, through whichever node serves next. That is safe: an open is known by its
	// request id (O2), a resume by its attempt (M1), and a close by the attachment it ends (M2).
	RepeatInFlight InFlight = iota
	// FailInFlight ends the call with [session.ErrOutcomeUnknown]: it may or may not have taken effect. The session of
	// such a call is not kept alive. Resumes of sessions that are held already are repeated all the same.
	FailInFlight
)

// Config says how a client reaches its cluster. Only Endpoints or ConnectString must be set.
type Config struct {
	// Endpoints are client addresses of at least one node and at most [MaxServers], each once: host names or IP
	// addresses, as in [ParseConnectString] but always with a port, and used as they are written. More than one make
	// moves possible before the cluster has told other addresses.
	Endpoints []string
	// ConnectString is another form of the same, see [ParseConnectString]; it may name a chroot.
	ConnectString string
	// Dial connects to an address; nil is TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Resolve returns all IP addresses of a host name. It is asked again in each round over the servers, and its
	// answers are tried in random order. nil is the system's resolver, or none if Dial is set: then Dial gets names as
	// they are.
	Resolve func(ctx context.Context, host string) ([]string, error)
	// Instance names this client process in resumes (M1): 64 random bits, never those of another or a former process. 0
	// takes them from crypto/rand.
	Instance uint64
	// Logger hears of connections and moves, never of touches. nil is silence.
	Logger hclog.Logger
	// MinBackoff and MaxBackoff bound the waits between rounds over all endpoints and between repeats of a request: the
	// n-th wait is drawn evenly from 0 to MinBackoff doubled n-1 times, at most MaxBackoff ("full jitter").
	MinBackoff, MaxBackoff time.Duration
	// ConnectTimeout bounds one attempt to connect; a sixth of the smallest session timeout does so too.
	ConnectTimeout time.Duration
	// HedgeDelay is how long after an attempt to connect the next one is made beside it; a twenty-fourth of the
	// smallest session timeout bounds it too. The first that connects is used, the others are closed.
	HedgeDelay time.Duration
	// ReadOnly allows read-only nodes, those that hear of no leader and have the setting read_only on. [Client.Get] and
	// [Client.List] then return what one says when no node answers that hears of a leader: the nodes are asked one
	// beside the other, each a HedgeDelay after the one before or sooner; once a read-only one has answered, the others
	// are given up to a second, and later reads go to it straight away for two. The State of what they return tells.
	// Sessions are [StateConnectedReadOnly] while the client's connection is to such a node for want of a better one.
	// Writes, opens and resumes among them, wait for a read-write node all the same: with a session there is no id
	// before one was found. Without ReadOnly such nodes are passed over.
	ReadOnly bool
	// OnNode, when set, is told where the client's connection for sessions is each time it is at another node, or the
	// node can do something else: its address, and what it said of itself last, zero before it has; all is zero without
	// a connection. It is called by the client's own goroutine, and in a [Pool] by each connection's: it must return
	// soon, and not call the client. While it does not return no session is touched; contexts end when their promises
	// do all the same. The end of the client does not call it.
	OnNode func(address string, state session.NodeState)
	// InFlight says what becomes of requests on a connection that is lost.
	InFlight InFlight
	// Principal names this client to the nodes, see [transport.ValidPrincipal]: clients of one name share the budget
	// that a node has for each (max_arrivals_per_second_per_principal). Nobody verifies it: it is for fairness between
	// clients that mean well. Empty is no name.
	Principal string
	// Rand draws the waits and the order of the endpoints; nil is seeded by crypto/rand. It is used under a lock.
	Rand rand.Source

	chroot string
}

// complete fills in the defaults and reports everything that is wrong.
func (cfg Config) complete() (Config, error) {
	var errs []error
	if cfg.ConnectString != "" {
		parsed, err := ParseConnectString(cfg.ConnectString)
		if len(cfg.Endpoints) > 0 {
			err = errors.Join(
				err, &session.FieldError{Field: "endpoints", Limit: "must be empty beside a connect string"},
			)
		}
		errs = append(errs, err)
		cfg.Endpoints, cfg.chroot = parsed.Servers, parsed.Chroot
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
	if err := errors.Join(errs...); err != nil {
		return Config{}, err
	}
	cfg.Endpoints = slices.Clone(cfg.Endpoints)
	if cfg.Resolve == nil && cfg.Dial == nil {
		cfg.Resolve = net.DefaultResolver.LookupHost
	}
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

// checkEndpoints reports everything that is wrong with a list of servers.
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

// notNegative returns what is wrong with a duration of a configuration, or nil.
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
