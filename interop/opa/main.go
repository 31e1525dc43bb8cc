// Open Policy Agent's server: its API over one store of policies, as `opa run --server` starts it, and with the same
// arguments. Without OPA's other commands, its downloads and its exporters it takes half as long to build. `opa cases` prints the cases
// that OPA publishes for evaluators of Rego, one in a line.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/open-policy-agent/opa/v1/logging"
	"github.com/open-policy-agent/opa/v1/plugins"
	"github.com/open-policy-agent/opa/v1/server"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/test/cases"
	"github.com/open-policy-agent/opa/v1/test/cases/testdata"
	"github.com/open-policy-agent/opa/v1/util"
	"github.com/open-policy-agent/opa/v1/version"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) > 0 && arguments[0] == "version" {
		fmt.Println("Version:", version.Version)
		return nil
	}
	if len(arguments) > 0 && arguments[0] == "cases" {
		return printCases()
	}
	if len(arguments) == 0 || arguments[0] != "run" {
		return fmt.Errorf("usage: opa version | opa cases | opa run --server [--log-level LEVEL] --addr ADDRESS POLICY..")
	}
	flags := flag.NewFlagSet("run", flag.ExitOnError)
	flags.Bool("server", true, "it is nothing else")
	flags.Bool("disable-telemetry", true, "there is none")
	level := flags.String("log-level", "info", "debug, info or error")
	address := flags.String("addr", "localhost:8181", "host and port, or unix://PATH")
	if err := flags.Parse(arguments[1:]); err != nil {
		return err
	}
	return serve(*address, *level, flags.Args())
}

func printCases() error {
	lines := json.NewEncoder(os.Stdout)
	return fs.WalkDir(testdata.V1, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := testdata.V1.ReadFile(path)
		if err != nil {
			return err
		}
		var set cases.Set
		if err := util.Unmarshal(text, &set); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, one := range set.Cases {
			if err := lines.Encode(one); err != nil {
				return err
			}
		}
		return nil
	})
}

func serve(address, level string, policies []string) error {
	ctx := context.Background()
	store := inmem.New()
	for _, path := range policies {
		if err := load(ctx, store, path); err != nil {
			return err
		}
	}

	logger := logging.New()
	logger.SetLevel(map[string]logging.Level{"debug": logging.Debug, "info": logging.Info, "error": logging.Error}[level])
	manager, err := plugins.New(nil, "interop", store, plugins.Logger(logger))
	if err != nil {
		return err
	}
	if err := manager.Start(ctx); err != nil {
		return err
	}

	opa, err := server.New().WithStore(store).WithManager(manager).WithAddresses([]string{address}).Init(ctx)
	if err != nil {
		return err
	}
	loops, err := opa.Listeners()
	if err != nil {
		return err
	}
	ended := make(chan error)
	for _, loop := range loops {
		go func() { ended <- loop() }()
	}
	return <-ended
}

func load(ctx context.Context, store storage.Store, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return storage.Txn(ctx, store, storage.WriteParams, func(txn storage.Transaction) error {
		return store.UpsertPolicy(ctx, txn, filepath.Base(path), text)
	})
}
