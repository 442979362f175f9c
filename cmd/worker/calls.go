package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"nightshift/internal/cli"
	"nightshift/replay"
)

type callsFlags struct {
	since, out string
	follow     bool
}

func (p *program) callsCommand() *cobra.Command {
	var f callsFlags
	c := &cobra.Command{
		Use: "calls", Short: "export the call log", Args: cli.Args,
		Long: "Prints the call log, one JSON object a line, in the order in which Redis got them: every call, also of probes, and every deferral of a line, with times, names, kinds, tokens and cost; never a prompt, an answer or a key. Redis keeps the last call_log.keep records. docs/formats.md has the schema, and `worker replay` takes the file.",
		RunE: func(c *cobra.Command, _ []string) error { return p.exportCalls(c.Context(), f) },
	}
	c.Flags().StringVar(&f.since, "since", "", "leave out what was written before: a `SPAN` before now (8h), or RFC 3339; default: everything that is kept")
	c.Flags().BoolVar(&f.follow, "follow", false, "go on with what is written from now on, until it is interrupted")
	c.Flags().StringVarP(&f.out, "output", "o", "", "write to `FILE`; default, and -: standard output")
	return c
}

func (p *program) exportCalls(ctx context.Context, f callsFlags) (err error) {
	since, err := sinceTime(f.since, time.Now())
	if err != nil {
		return err
	}
	conn, err := p.connectState(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	out, end, err := p.outputFile(f.out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	n, damaged, enc := 0, 0, json.NewEncoder(out)
	err = conn.Calls(ctx, replay.Exporting{Since: since, Follow: f.follow, Damaged: func(error) { damaged++ }, Each: func(r replay.Record) error {
		n++
		return enc.Encode(r)
	}, Idle: out.Flush})
	if damaged > 0 {
		p.Warn("%s of the call log cannot be read and are left out", cli.Count(damaged, "record"))
	}
	if err != nil {
		return err
	}
	p.Say("%s", cli.Count(n, "record"))
	if n == 0 && conn.Config.CallLog.Keep == 0 {
		p.Hint("call_log.keep is 0: no call is kept")
	}
	if f.follow {
		return ended(ctx)
	}
	return nil
}

// outputFile is where results go: a file, or standard output.
func (p *program) outputFile(name string) (w *bufio.Writer, end func() error, err error) {
	var to io.Writer = p.Out
	closeIt := func() error { return nil }
	if name != "" && name != "-" {
		file, err := os.Create(name)
		if err != nil {
			return nil, nil, fmt.Errorf("open output: %w", err)
		}
		to, closeIt = file, file.Close
	}
	w = bufio.NewWriter(to)
	return w, func() error { return errors.Join(w.Flush(), closeIt()) }, nil
}

// sinceTime reads --since; zero: it is not given.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, cli.Usage("write it as in 8h, or 2026-12-01T22:00:00+01:00", "--since: %q is neither a span nor a time", text)
	}
	return t, nil
}
