package clientport

import (
	"cmp"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/credentials"

	"holdfast/session"
	"holdfast/transport/authz"
	"holdfast/transport/census"
	"holdfast/transport/port"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
)

// Config configures a [Server]. The zero value of a field is its default.
type Config struct {
	Logger hclog.Logger
	// Credentials of the transport; nil is plaintext.
	Credentials credentials.TransportCredentials
	// Limits bound the connections, calls and bytes of the port. Defaults: messages of 1 MiB, 64 streams a connection,
	// 20,000 connections, any number for each address, 25,000 calls, and 256 MiB of waiting bytes.
	Limits port.Limits
	// Stream bounds one Connect stream.
	Stream StreamLimits
	// ReadTimeout is the longest time for which a client may read no message while messages wait; a large message gets
	// a little more; default 30 s.
	ReadTimeout time.Duration
	// Keepalive defaults to a test after 30 s with 10 s for the answer. A client may ping every 5 s.
	Keepalive port.Keepalive
	// RateLimits bound the client requests that the node accepts in a second; zero is no limit.
	RateLimits ratelimit.Config
	// TouchWait bounds the wait of one TouchSessions for tokens that are newer than this node's state; default 1 s.
	TouchWait time.Duration
	// Super is the digest, NAME:HASH, of the client that passes every access list of the tree (P1 principals); "" for
	// none.
	Super string
	// Snapshots freezes the node's state for backups; nil: the node makes none.
	Snapshots Snapshots
	Operators
	// Audit records the writes of [tree.Super]; nil records none. The Authorizer records other acts of operators.
	Audit *authz.Audit
	// Authorizer decides who may make which call; nil permits every call.
	Authorizer port.Authorizer
	// Clock is the wall clock that ids are made from (O1 ids from the log); nil is time.Now.
	Clock func() time.Time
	// Touched, if set, is called at each touch of all sessions of a Connect stream after the first one. left is the
	// rest of the promise in the answer to the previous touch, 0 if the promise has run out. OnDelivered, if set, is
	// called for each event of the tree that goes to a client, with the index of the entry that made the change.
	// Several goroutines call both, and both must return at once.
	Touched     func(left time.Duration)
	OnDelivered func(index uint64)
}

// Operators are the parts of a node that serve operators.
type Operators struct {
	// Admin serves AdminService; nil: not served.
	Admin session.Administration
	// Drains drains the node; nil: it cannot be drained.
	Drains Drains
	// Members changes the members; nil: they cannot be changed.
	Members Memberships
	// Census lists the connections of the node; nil: the port makes its own.
	Census *census.Census
}

// StreamLimits bound what the node holds for one Connect stream. The zero value of a field is its default.
type StreamLimits struct {
	// Sessions is the largest number of sessions of the stream; default 100,000. A client with more opens another
	// connection, so that no single goroutine reads and writes for all sessions.
	Sessions int
	// Requests is the largest number of opens, resumes, upgrades and closes in flight; default 1,024. More requests in
	// flight would only wait at the node.
	Requests int
	// Outgoing is the largest number of unread messages; default 4,096, or twice Requests if that is more, because the
	// node may answer all requests at once. One more message ends the stream with RESOURCE_EXHAUSTED.
	Outgoing int
}

const (
	// callsPerConnection is enough for the SDK's one Connect stream, its reads and its single calls.
	callsPerConnection = 64
	// minCalls is the smallest default for calls on all connections together. Otherwise the default is a quarter above
	// the limit of connections: a client has one stream for its sessions, and few clients have other calls.
	minCalls = 1000
	// The defaults of [StreamLimits].
	defaultSessions = 100_000
	defaultRequests = 1024
	defaultOutgoing = 4096
)

func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, hclog.NewNullLogger())
	c.Limits.MessageBytes = cmp.Or(c.Limits.MessageBytes, wire.DefaultMessageBytes)
	c.Limits.StreamsPerConnection = cmp.Or(c.Limits.StreamsPerConnection, callsPerConnection)
	c.Limits.Connections = cmp.Or(c.Limits.Connections, 20_000)
	c.Limits.Calls = cmp.Or(c.Limits.Calls, max(minCalls, c.Limits.Connections+c.Limits.Connections/4))
	c.Limits.WaitingBytes = cmp.Or(c.Limits.WaitingBytes, 256<<20)
	c.Stream.Sessions = cmp.Or(c.Stream.Sessions, defaultSessions)
	c.Stream.Requests = cmp.Or(c.Stream.Requests, defaultRequests)
	c.Stream.Outgoing = cmp.Or(c.Stream.Outgoing, max(defaultOutgoing, 2*c.Stream.Requests))
	c.ReadTimeout = cmp.Or(c.ReadTimeout, port.ReadTimeout)
	c.Keepalive.Time = cmp.Or(c.Keepalive.Time, 30*time.Second)
	c.Keepalive.Timeout = cmp.Or(c.Keepalive.Timeout, 10*time.Second)
	c.Keepalive.MinTime = cmp.Or(c.Keepalive.MinTime, 5*time.Second)
	c.TouchWait = cmp.Or(c.TouchWait, time.Second)
	if c.Census == nil {
		c.Census = census.New()
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}
