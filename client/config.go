package client

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// Defaults of [Config].
const (
	DefaultMinBackoff     = 50 * time.Millisecond
	DefaultMaxBackoff     = 2 * time.Second
	DefaultConnectTimeout = 3 * time.Second
)

// Config says how a client reaches its cluster. Only Endpoints must be set.
type Config struct {
	// Endpoints are client addresses, host:port, of at least one node; more make moves possible before the cluster has
	// told other addresses.
	Endpoints []string
	// Dial connects to an address; nil is TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Instance names this client process in resumes (M1): 64 random bits, never those of another or a former process. 0
	// takes them from crypto/rand.
	Instance uint64
	// Logger hears of connections and moves, never of touches. nil is silence.
	Logger hclog.Logger
	// MinBackoff and MaxBackoff bound the waits between rounds over all endpoints and between repeats of a request: the
	// n-th wait is drawn evenly from 0 to MinBackoff doubled n-1 times, at most MaxBackoff.
	MinBackoff, MaxBackoff time.Duration
	// ConnectTimeout bounds one attempt to connect; a sixth of the smallest session timeout does so too.
	ConnectTimeout time.Duration
	// Rand draws the waits and the order of the endpoints; nil is seeded by crypto/rand. It is used under a lock.
	Rand rand.Source
}

// complete fills in the defaults and reports everything that is wrong.
func (cfg Config) complete() (Config, error) {
	var errs []error
	if len(cfg.Endpoints) == 0 {
		errs = append(errs, &session.FieldError{Field: "endpoints", Limit: "at least one host:port"})
	}
	for _, e := range cfg.Endpoints {
		if _, port, err := net.SplitHostPort(e); err != nil || port == "" {
			errs = append(errs, &session.FieldError{Field: "endpoints", Limit: "host:port, not " + quote(e)})
		}
	}
	if cfg.MinBackoff < 0 || cfg.MaxBackoff < 0 || cfg.ConnectTimeout < 0 {
		errs = append(errs, &session.FieldError{Field: "backoff and connect timeout", Limit: "positive, or 0 for the default"})
	}
	if len(errs) > 0 {
		return Config{}, errors.Join(errs...)
	}
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

func setDefault(d *time.Duration, v time.Duration) {
	if *d == 0 {
		*d = v
	}
}

func quote(s string) string { return `"` + s + `"` }

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

// dice draws for the loop and for callers of the unary helpers.
type dice struct {
	mu   sync.Mutex
	rand *rand.Rand // guarded by mu
	// lowest and highest bound the cap of a back-off.
	lowest, highest time.Duration
}

// backoff returns the n-th wait in a row, n from 1: exponential, with full jitter.
func (d *dice) backoff(n int) time.Duration {
	limit := d.highest
	if shift := n - 1; shift < 32 && d.lowest<<shift < d.highest {
		limit = d.lowest << shift
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.rand.Int64N(int64(limit) + 1))
}

func (d *dice) shuffle(s []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rand.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}
