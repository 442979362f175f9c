package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nightshift/config"
	"nightshift/internal/cli"
)

// healthLimit bounds what the other process may take to answer; it gives Redis a
// second itself.
const healthLimit = 3 * time.Second

func (p *program) healthCommand() *cobra.Command {
	var (
		page bool
		addr string
	)
	c := &cobra.Command{
		Use: "health", Short: "ask a process on this machine whether it is ready", Args: cli.Args,
		Long: "Asks the process that listens on metrics.addr, or with --page on dashboard.addr, for its /readyz, and prints what it says. The exit code is 0 where it is ready: everything was started, nothing stops, and Redis answers; else 1. It is for health checks in containers, which have no shell and no curl; elsewhere ask /readyz, or /healthz, yourself.",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := p.LoadShared(config.WithoutKeys())
			if err != nil {
				return err
			}
			key, configured := "metrics.addr", cfg.Metrics.Addr
			if page {
				key, configured = "dashboard.addr", cfg.Dashboard.Addr
			}
			if addr == "" {
				addr = configured
			}
			if addr == "" {
				return cli.Usage("name one with --addr", "%s is empty in %s", key, p.Common.Config)
			}
			where, err := readyURL(addr, page && cfg.Dashboard.TLS.CertFile != "")
			if err != nil {
				return cli.Usage("an address is HOST:PORT or :PORT", "%s: %v", key, err)
			}
			return p.askReady(c.Context(), where)
		},
	}
	c.Flags().BoolVar(&page, "page", false, "ask the web page, not the metrics")
	c.Flags().StringVar(&addr, "addr", "", "ask `ADDR` in place of the configured address")
	return c
}

// readyURL is where a process that listens on addr is asked from the same machine.
func readyURL(addr string, encrypted bool) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "localhost"
	}
	scheme := "http://"
	if encrypted {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, port) + "/readyz", nil
}

func (p *program) askReady(ctx context.Context, where string) error {
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", where, err)
	}
	// The certificate is for the name that people use, and not for this machine's
	// own; nothing secret is asked or told. A proxy is not asked either.
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	answer, err := client.Do(r)
	if err != nil {
		return cli.Fail("does it run, and with --metrics or --dashboard?", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", where, err)
	}
	said := strings.TrimSpace(string(text))
	if answer.StatusCode != http.StatusOK {
		return errors.New("not ready: " + said)
	}
	fmt.Fprintln(p.Out, said)
	return nil
}
