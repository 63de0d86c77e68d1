package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/internal/arg"
	"holdfast/node/config"
)

// maxHealthAnswer bounds an answer, in bytes.
const maxHealthAnswer = 4096

// healthCommand is the health check of a container: an image FROM scratch has no other program for it.
func healthCommand(environ []string) *cobra.Command {
	var address string
	var files tlsFiles
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a node whether it serves: exit 0 if it does, 1 if not",
		Args:  arg.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !hostPort(address) {
				return &config.SettingError{
					Setting: "--address", Value: strconv.Quote(address),
					Limit: "must be host:port, such as 127.0.0.1:7403",
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			answer, err := askHealth(ctx, address, files)
			if err != nil {
				return failure{err}
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), answer)
			return err
		},
	}
	cmd.Flags().StringVar(&address, "address", "127.0.0.1:7403", "HTTP address of the node, its http_listen")
	cmd.Flags().Var(arg.Positive(&timeout, 2*time.Second, 0), "timeout", "how long to wait for the answer")
	files.register(cmd, environ)
	return cmd
}

// hostPort reports whether an address names a port, as every node's own does.
func hostPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err == nil && port != ""
}

// askHealth returns the answer of the node at an HTTP address. Its error says why, when the node does not serve.
func askHealth(ctx context.Context, address string, files tlsFiles) (string, error) {
	scheme, secured, err := files.load()
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+"/healthz", http.NoBody)
	if err != nil {
		return "", err
	}
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: secured, DisableKeepAlives: true}}
	response, err := web.Do(request)
	if why := files.explain(address, err); why != nil {
		return "", why
	}
	if _, network := errors.AsType[*net.OpError](err); err != nil && !network && ctx.Err() == nil {
		return "", fmt.Errorf(
			"%s does not answer with HTTP/1: it is not the HTTP port of a node, which is 7403 unless its http_listen "+
				"says otherwise", address,
		)
	}
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // a body that was read has nothing to lose
	b, err := io.ReadAll(io.LimitReader(response.Body, maxHealthAnswer))
	if err != nil {
		return "", err
	}
	answer := strings.TrimSpace(string(b))
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s: %s", address, response.Status, answer)
	}
	return answer, nil
}
