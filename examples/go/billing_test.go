package coterie

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestACommitSurvivesACoordinatorThatMoved(t *testing.T) {
	kafka := StartServer(t)
	kafka.CreateTopic(t, "orders", nil, "first", "second")
	hits := kafka.Fault(t, map[string]any{
		"kind":  "reply",
		"api":   "OffsetCommit",
		"error": "NOT_COORDINATOR",
		"group": "billing",
		"times": 2,
	})
	if values := readAndCommit(t, kafka, 2); !slices.Equal(values, []string{"first", "second"}) {
		t.Fatalf("read %q", values)
	}
	if hits() != 2 {
		t.Fatalf("the fault hit %d requests", hits())
	}
	var group struct{ Offsets []struct{ Offset int } }
	kafka.Get(t, "/v1/groups/billing", &group)
	if len(group.Offsets) != 1 || group.Offsets[0].Offset != 2 {
		t.Fatalf("committed %v", group.Offsets)
	}
}

func TestOffsetsOfAGroupThatWasAwayForAWeekAreGone(t *testing.T) {
	kafka := StartServer(t)
	keep := map[string]string{"retention.ms": "-1"}
	kafka.CreateTopic(t, "orders", keep, "first")
	readAndCommit(t, kafka, 1)
	kafka.Post(t, "/v1/clock/advance", map[string]int{"days": 8}, nil)
	// Read again: without a committed offset the consumer starts at the first record.
	if values := readAndCommit(t, kafka, 1); !slices.Equal(values, []string{"first"}) {
		t.Fatalf("read %q", values)
	}
}

// readAndCommit reads records as a member of the group billing, and leaves it.
func readAndCommit(t *testing.T, kafka *Server, count int) (values []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(kafka.BootstrapServers),
		kgo.ConsumerGroup("billing"),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for len(values) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			values = append(values, string(record.Value))
		})
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	return values
}
