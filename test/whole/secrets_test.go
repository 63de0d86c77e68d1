package whole

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/auth"
	"holdfast/client"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/authfile"
	"holdfast/transport/authz"
)

// output collects what nodes and clients write.
type output struct {
	mu sync.Mutex
	bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.Write(p)
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.String()
}

// as returns a client that shows a token.
func (c *Cluster) as(host string, token client.TokenSource, log io.Writer, digests ...string) *client.Client {
	c.T.Helper()
	var endpoints []string
	for _, n := range c.Names {
		endpoints = append(endpoints, n+":7400")
	}
	cl, err := client.New(client.Config{
		Endpoints: endpoints, Dial: c.Host(host).Dial, Token: token, TokenWithoutTLS: true, Digests: digests,
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: log}),
	})
	if err != nil {
		c.T.Fatal(err)
	}
	return cl
}

// A client whose token is replaced continues: it asks the source again. A client whose token is removed keeps its
// session until the promise runs out, and a client with too few roles learns which role it needs.
func TestTokensOfTheSDK(t *testing.T) {
	dir := t.TempDir()
	file, mine := filepath.Join(dir, "auth.yaml"), filepath.Join(dir, "token")
	first, second, reader := auth.NewToken(), auth.NewToken(), auth.NewToken()
	roles := map[string]auth.Roles{"first": auth.Client, "second": auth.Client, "reader": auth.Reader}
	authfile.Write(t, file, map[string]auth.Token{"first": first, "reader": reader}, roles)
	hold := func(token auth.Token) {
		if err := os.WriteFile(mine, []byte(token.Secret()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hold(first)
	setup := Setup{Change: func(cfg *config.Config) { cfg.Auth.Mode, cfg.Auth.File = authz.Tokens, file }}
	RunSetup(t, setup, func(c *Cluster) {
		cl := c.as("app", client.TokenFile(mine), io.Discard)
		defer cl.Close()
		s := c.Session(cl, 20*time.Second)
		authfile.Write(c.T, file, map[string]auth.Token{"second": second, "reader": reader}, roles)
		hold(second)
		time.Sleep(2 * time.Minute)
		if err := s.Err(); err != nil {
			c.T.Errorf("the session of a client with a new token: %v", err)
		}
		if _, err := s.Tree().Create(context.Background(), "/a", nil, client.CreateOptions{}); err != nil {
			c.T.Error(err)
		}
		reads := c.as("reads", client.StaticToken(reader.Secret()), io.Discard)
		defer reads.Close()
		if _, err := reads.List(context.Background(), client.ListOptions{}); err != nil {
			c.T.Errorf("a reader lists: %v", err)
		}
		_, err := cl.List(context.Background(), client.ListOptions{})
		if denied, ok := errors.AsType[*session.AccessError](err); !ok || denied.Who != "token:second" ||
			strings.Join(denied.Needs, " ") != "reader" || strings.Join(denied.Has, " ") != "client" {
			c.T.Errorf("a client lists: got %v, %+v", err, denied)
		}
		bounded, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		removed := c.as("removed", client.StaticToken(first.Secret()), io.Discard)
		defer removed.Close()
		_, err = removed.Open(bounded, client.SessionOptions{Timeout: time.Second})
		if !errors.Is(err, session.ErrUnauthenticated) {
			c.T.Errorf("an open with a token that is gone: got %v", err)
		}
		if _, err := removed.Get(context.Background(), s.ID()); !errors.Is(err, session.ErrUnauthenticated) {
			c.T.Errorf("a read with a token that is gone: got %v", err)
		}
		authfile.Write(c.T, file, map[string]auth.Token{"reader": reader}, roles)
		since := time.Now()
		select {
		case <-s.Done():
			c.T.Errorf("the session ended: %v", s.Err())
		case <-s.Context().Done():
		}
		if lasted := time.Since(since); lasted < 10*time.Second || lasted > time.Minute {
			c.T.Errorf("without a token the promise ran out after %v", lasted)
		}
	})
}

// No output of a cluster and its clients shows a secret: not the logs at trace, not /metrics, not the answers about
// nodes and sessions, and no file of a node but those that must hold it.
func TestNoSecretGetsOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "auth.yaml")
	tokens := map[string]auth.Token{"app": auth.NewToken(), "ops": auth.NewToken()}
	authfile.Write(t, file, tokens, map[string]auth.Roles{"app": auth.Client, "ops": auth.Admin})
	stolen := auth.NewToken()
	const password = "planted-password-of-the-tree"
	secrets := map[string]string{
		"token app": tokens["app"].Secret(), "token ops": tokens["ops"].Secret(), "unknown token": stolen.Secret(),
		"password": password,
	}
	var log output
	setup := Setup{Log: &log, Change: func(cfg *config.Config) { cfg.Auth.Mode, cfg.Auth.File = authz.Tokens, file }}
	RunSetup(t, setup, func(c *Cluster) {
		ctx := context.Background()
		cl := c.as("app", client.StaticToken(tokens["app"].Secret()), &log, "app:"+password)
		s := c.Session(cl, 10*time.Second)
		credential := s.Token().Credential
		secrets["credential"] = hex.EncodeToString(credential[:])
		if _, err := s.Tree().Create(ctx, "/a", []byte("b"), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		ops := c.as("ops", client.StaticToken(tokens["ops"].Secret()), &log)
		thief := c.as("thief", client.StaticToken(stolen.Secret()), &log, "app:"+password)
		show := func(v any, err error) { fmt.Fprintf(&log, "%+v %#v %v\n", v, v, err) }
		for _, n := range c.Names {
			show(ops.Status(ctx, n+":7400"))
			show(thief.Status(ctx, n+":7400"))
			io.WriteString(&log, c.scrape(n, tokens["ops"].Secret()))
			c.scrape(n, stolen.Secret())
		}
		show(ops.Members(ctx))
		show(ops.List(ctx, client.ListOptions{}))
		show(ops.Get(ctx, s.ID()))
		show(thief.Get(ctx, s.ID()))
		wrong := s.Token()
		wrong.Credential[0]++
		show(nil, cl.CloseToken(ctx, wrong))
		show(s.Token(), nil)
		authfile.Write(t, file, map[string]auth.Token{"ops": tokens["ops"]}, map[string]auth.Roles{"ops": auth.Admin})
		time.Sleep(time.Minute)
		broken := "tokens: [" + tokens["app"].Secret() + ", {sha256: " + stolen.Secret()
		if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for _, one := range []*client.Client{cl, ops, thief} {
			one.Close()
		}
		c.search(secrets, log.text())
	})
}

// scrape asks a node for /metrics with a token.
func (c *Cluster) scrape(node, token string) string {
	c.T.Helper()
	web := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return c.Host("operator").Dial(ctx, address)
		},
		DisableKeepAlives: true,
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+node+":7403/metrics", nil)
	if err != nil {
		c.T.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := (&http.Client{Transport: web}).Do(request)
	if err != nil {
		c.T.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.T.Fatal(err)
	}
	return string(body)
}

// search searches for secrets in all output, and in the files of the nodes.
func (c *Cluster) search(secrets map[string]string, written string) {
	c.T.Helper()
	for _, must := range []string{
		"token:app", "holdfast_operator_actions_total", "call denied", "reload auth_file", "outcome=failed",
	} {
		if !strings.Contains(written, must) {
			c.T.Errorf("what was written has no %q: this test does not read what it should", must)
		}
	}
	files := 0
	err := filepath.WalkDir(c.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		files++
		for name, secret := range secrets {
			if bytes.Contains(b, []byte(secret)) {
				c.T.Errorf("%s is in %s", name, filepath.Base(path))
			}
		}
		return err
	})
	if err != nil || files < 3*len(c.Names) {
		c.T.Errorf("read %d files: %v", files, err)
	}
	for name, secret := range secrets {
		if i := strings.Index(strings.ToLower(written), strings.ToLower(secret)); i >= 0 {
			c.T.Errorf("%s was written: %s", name, strings.ReplaceAll(written[max(i-150, 0):i+20], secret, "(it)"))
		}
	}
}
