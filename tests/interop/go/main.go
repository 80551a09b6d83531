// An executor with the handlers that every client of these tests offers; see ../README.md.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	xxl "github.com/xxl-job/xxl-job-executor-go"
)

func setting(name string) string { return os.Getenv("INTEROP_" + name) }

func main() {
	admin, _, _ := strings.Cut(setting("ADMINS"), ",") // it knows one admin only
	executor := xxl.NewExecutor(
		xxl.ServerAddr(admin),
		xxl.AccessToken(setting("TOKEN")),
		xxl.ExecutorIp(setting("HOST")),
		xxl.ExecutorPort(setting("PORT")),
		xxl.RegistryKey(setting("APP")),
	)
	executor.Init()
	executor.LogHandler(readLog)
	for name, body := range map[string]xxl.TaskFunc{
		"succeed": succeed, "fail": fail, "slow": slow, "shard": shard, "echo": echo, "file": nothing,
	} {
		executor.RegTask(name, recorded(name, body))
	}
	fmt.Println("interop ready")
	if err := executor.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func succeed(_ context.Context, param *xxl.RunReq) string {
	writeLog(param, "first line: "+param.ExecutorParams)
	writeLog(param, "second line: "+param.ExecutorParams)
	return "succeeded"
}

// A panic is the only way in which a handler can say that it failed.
func fail(_ context.Context, param *xxl.RunReq) string {
	writeLog(param, "about to fail")
	panic("failed on purpose")
}

// Returns when it is cancelled, as handlers commonly do: the library then reports a success.
func slow(ctx context.Context, param *xxl.RunReq) string {
	seconds, err := strconv.ParseFloat(param.ExecutorParams, 64)
	if err != nil {
		panic(err)
	}
	end := time.After(time.Duration(seconds * float64(time.Second)))
	for line := 1; ; line++ {
		writeLog(param, fmt.Sprintf("line %d", line))
		select {
		case <-ctx.Done():
			return "stopped: " + ctx.Err().Error()
		case <-end:
			return "slept"
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func shard(_ context.Context, param *xxl.RunReq) string {
	writeLog(param, fmt.Sprintf("shard %d of %d", param.BroadcastIndex, param.BroadcastTotal))
	return ""
}

func echo(_ context.Context, param *xxl.RunReq) string { return param.ExecutorParams }

func nothing(_ context.Context, _ *xxl.RunReq) string { return "" }

func recorded(handler string, body xxl.TaskFunc) xxl.TaskFunc {
	return func(ctx context.Context, param *xxl.RunReq) string {
		// Kept: the library's own copy is overwritten by the next run of the same handler.
		kept := *param
		record("start", handler, &kept)
		outcome := "stop"
		defer func() { record(outcome, handler, &kept) }()
		message := body(ctx, &kept)
		if ctx.Err() == nil {
			outcome = "end"
		}
		return message
	}
}

func record(event, handler string, param *xxl.RunReq) {
	if file := setting("RECORD"); file != "" {
		appendTo(file, fmt.Sprintf("%s %d %s %s", event, param.LogID, handler, param.ExecutorParams))
	}
}

// The library leaves logs to the program.
func logFile(logID int64) string {
	return filepath.Join(setting("LOGS"), strconv.FormatInt(logID, 10)+".log")
}

func writeLog(param *xxl.RunReq, line string) { appendTo(logFile(param.LogID), line) }

func appendTo(path, line string) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	fmt.Fprintln(file, line)
}

func readLog(req *xxl.LogReq) *xxl.LogRes {
	content := xxl.LogResContent{FromLineNum: req.FromLineNum, IsEnd: true}
	file, err := os.Open(logFile(req.LogID))
	if err != nil {
		return &xxl.LogRes{Code: xxl.FailureCode, Msg: err.Error(), Content: content}
	}
	defer file.Close()
	var lines []string
	scanner := bufio.NewScanner(file)
	for number := 1; scanner.Scan(); number++ {
		if number >= req.FromLineNum {
			lines = append(lines, scanner.Text())
			content.ToLineNum = number
		}
	}
	content.LogContent = strings.Join(lines, "\n")
	return &xxl.LogRes{Code: xxl.SuccessCode, Content: content}
}
