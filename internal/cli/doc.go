// Package cli is what the two commands have in common: streams, exit codes,
// errors and hints, signals, flags, logging, progress, tables and times.
//
// A command returns an error and never prints one; [Env.Execute] prints it in
// the one way that users know and turns it into an exit code:
//
//	enqueue: error: nightshift.yaml:3:5: queues.overnight.ladder: no ladder "nigthly"
//	enqueue: hint: did you mean "nightly"?
//
// Results go to Env.Out, everything else to Env.Err.
package cli

//go:generate sh -c "{ printf '# Commands\n\nWritten by the code: `make generate`.\n\n' && go run ../../cmd/enqueue reference && go run ../../cmd/worker reference; } > ../../docs/cli.md"
