package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"nightshift/breaker"
	"nightshift/config"
	"nightshift/internal/app"
	"nightshift/internal/cli"
	"nightshift/replay"
)

type replayFlags struct {
	baseline, policies, arrivals, html string
	seed                               uint64
	workers                            int
	json, suggest                      bool
}

func (p *program) replayCommand() *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use: "replay LOG...", Short: "run a call log, or a scenario, through a configuration in virtual time", Args: cli.Args,
		Long: "Simulates what the configuration (--config) would have made of the traffic in call logs (`worker calls`, also .gz, and - for standard input) or of one scenario (.yaml): the breakers, ladders and limits are those of a worker, on a virtual clock. With --baseline, another configuration stands beside it; with --policies, other breakers do. The same seed gives the same figures.\n\n" +
			"Without --config a scenario's own configuration is taken. No provider is called, and no Redis is needed. docs/replay.md explains the figures, and what a log cannot tell.",
		RunE: func(c *cobra.Command, args []string) error { return p.replay(c.Context(), args, f) },
	}
	c.Flags().StringVar(&f.baseline, "baseline", "", "a configuration `FILE` to compare with")
	c.Flags().StringVar(&f.policies, "policies", replay.Ours, "breakers to compare: `NAMES` with commas between, or all; "+policyNames())
	c.Flags().StringVar(&f.arrivals, "arrivals", string(replay.ArriveBatch), "when the lines of a log came in: `HOW` is batch (all of a batch with its first record) or line (each with its own)")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "`N` from which all chance comes")
	c.Flags().IntVar(&f.workers, "workers", 0, "worker processes; default: as many as in the log, or as the scenario says")
	c.Flags().StringVar(&f.html, "html", "", "write a page with charts to `FILE`")
	c.Flags().BoolVar(&f.suggest, "suggest", false, "try other numbers of the breaker and print the best of them")
	jsonFlag(c, &f.json)
	return c
}

func policyNames() string {
	var all []string
	for _, p := range replay.Policies() {
		all = append(all, p.Name)
	}
	return strings.Join(all, ", ")
}

// garbagePercent is how much garbage a simulation may leave, beside what it keeps: it
// makes much and keeps little, and collecting seldom saves a fifth of its time.
const garbagePercent = 300

// replay answers what the flags ask.
func (p *program) replay(ctx context.Context, files []string, f replayFlags) error {
	defer debug.SetGCPercent(debug.SetGCPercent(garbagePercent))
	if err := dirOf(f.html); err != nil {
		return err
	}
	in, err := p.replayInput(ctx, files, f)
	if err != nil {
		return err
	}
	for _, w := range in.report.Warnings {
		p.Warn("%s", w)
	}
	if f.suggest {
		return p.suggest(ctx, in, f)
	}
	runs, err := replay.Answer(in.question)
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	in.report.Runs = runs
	if f.html != "" {
		page, err := in.report.Page()
		if err != nil {
			return err
		}
		if err := os.WriteFile(f.html, page, 0o644); err != nil { //nolint:gosec // a page for everybody
			return fmt.Errorf("write page: %w", err)
		}
	}
	if f.json {
		return cli.JSON(p.Out, in.report)
	}
	return p.printReplay(&in.report)
}

func (p *program) printReplay(r *replay.Report) error {
	header := []string{""}
	for _, f := range r.Runs {
		header = append(header, f.Name())
	}
	var rows [][]string
	for _, row := range r.Rows() {
		rows = append(rows, append([]string{row.What}, row.Values...))
	}
	if err := cli.Table(p.Out, header, rows); err != nil {
		return err
	}
	for _, n := range r.Notes() {
		p.Say("%s", n)
	}
	return nil
}

// replayInput is what the files and the configurations make together.
type replayInput struct {
	question replay.Question
	report   replay.Report
}

// maxWorkers bounds --workers, as it does those of a scenario: each is some hundred
// KB and more.
const maxWorkers = 1000

// dirOf says whether a page can be written, before the work is done.
func dirOf(page string) error {
	if page == "" {
		return nil
	}
	if info, err := os.Stat(page); err == nil && info.IsDir() {
		return cli.Usage("name a file in it", "--html: %s is a directory", page)
	}
	dir := filepath.Dir(page)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return cli.Usage("make it first: mkdir -p "+dir, "--html: there is no directory %s", dir)
	}
	return nil
}

func (p *program) replayInput(ctx context.Context, files []string, f replayFlags) (*replayInput, error) {
	policies, unknown := replay.PickPolicies(f.policies)
	switch how := replay.Arrivals(f.arrivals); {
	case len(files) == 0:
		return nil, cli.Usage("`worker calls -o calls.jsonl` writes a log; examples/replay has scenarios", "no log and no scenario is named")
	case len(unknown) > 0:
		return nil, cli.Usage("these are there: all, "+policyNames(), "--policies: there is no %s", strings.Join(unknown, ", "))
	case how != replay.ArriveBatch && how != replay.ArriveLine:
		return nil, cli.Usage("write batch or line", "--arrivals: %q is neither", f.arrivals)
	case f.workers < 0:
		return nil, cli.Usage("leave it out", "--workers %d is below 1", f.workers)
	case f.workers > maxWorkers:
		return nil, cli.Usage(fmt.Sprintf("give at most %d", maxWorkers), "--workers %d is too many", f.workers)
	case isScenario(files[0]) && len(files) > 1:
		return nil, cli.Usage("run it alone", "a scenario stands beside other files")
	}
	in := &replayInput{}
	in.report.V, in.report.Source, in.report.Seed = 1, files, f.seed
	in.question.Policies, in.question.Seed, in.question.Done = policies, f.seed, ctx.Done()
	var err error
	if isScenario(files[0]) {
		err = p.fromScenario(in, files[0], f)
	} else {
		err = p.fromLogs(ctx, in, files, f)
	}
	if err != nil {
		return nil, err
	}
	in.question.Traffic.Workers = cmp.Or(f.workers, in.question.Traffic.Workers)
	in.report.Workers = in.question.Traffic.Workers
	return in, nil
}

func isScenario(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	return ext == ".yaml" || ext == ".yml"
}

// setups loads the configurations: the new one, and before it the baseline. Nothing
// is called, so keys are not needed.
func (p *program) setups(file, baseline string) (all []replay.Setup, keys []breaker.Key, err error) {
	names := []string{file}
	if baseline != "" {
		names = []string{baseline, file}
	}
	for _, name := range names {
		cfg, err := config.Load(name, config.WithoutKeys())
		if err != nil {
			return nil, nil, err
		}
		s := app.ReplaySetup(cfg, setupName(name))
		if len(all) > 0 && all[0].Name == s.Name {
			s.Name, all[0].Name = name, baseline
		}
		all = append(all, s)
		keys = append(keys, s.Keys...)
	}
	return all, distinct(keys), nil
}

// setupName is the file's name; of the default name, ours.
func setupName(file string) string {
	return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
}

func distinct(keys []breaker.Key) (all []breaker.Key) {
	seen := map[breaker.Key]bool{}
	for _, k := range keys {
		if !seen[k] {
			seen[k] = true
			all = append(all, k)
		}
	}
	return all
}

func (p *program) fromScenario(in *replayInput, file string, f replayFlags) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read scenario: %w", err)
	}
	s, err := replay.ParseScenario(file, text)
	if err != nil {
		return err
	}
	name := p.Common.Config
	if !p.Common.ConfigNamed() && s.Config != "" {
		name = filepath.Join(filepath.Dir(file), s.Config)
	}
	setups, keys, err := p.setups(name, f.baseline)
	if err != nil {
		return err
	}
	in.question.Setups = setups
	in.question.Traffic, in.question.World, err = s.Build(keys, f.seed)
	return err
}

func (p *program) fromLogs(ctx context.Context, in *replayInput, files []string, f replayFlags) error {
	setups, keys, err := p.setups(p.Common.Config, f.baseline)
	if err != nil {
		return err
	}
	c := replay.NewCollector()
	r := replay.NewReader(c.Add)
	read := make(chan error, 1)
	go func() { read <- readLogs(r, files, p.In) }() // an interrupt does not wait for standard input
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-read:
		if err != nil {
			return err
		}
	}
	in.report.Warnings, in.report.Records = r.Warnings(), r.Records()
	in.question.Setups = setups
	in.question.Traffic, in.question.World, in.report.Assumed, err = c.Build(keys, replay.Arrivals(f.arrivals))
	return err
}

func readLogs(r *replay.Reader, files []string, in io.Reader) error {
	for _, name := range files {
		if err := r.ReadFile(name, in); err != nil {
			return err
		}
	}
	return r.Check()
}
