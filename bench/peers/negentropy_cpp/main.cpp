// The C++ negentropy as a peer of the benchmarks: sessions over sets that stay in memory, one for each line of stdin.
//
// `negentropy-peer OURS THEIRS`: two files of records, 8 bytes of timestamp (little-endian) and 32 of id each. A line of
// stdin is a frame limit. The answer is a line: nanoseconds of CPU, rounds, bytes up, bytes down, ids that the initiator
// has alone, and that it lacks. CPU is this thread's, of both sides together, as the benchmark takes Culm's.
//
// The headers are not part of this repository, and some of them expect that others were included before them.

#include <openssl/sha.h>

#include <cstdint>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "negentropy.h"
#include "negentropy/storage/Vector.h"

using Set = negentropy::storage::Vector;
using Side = negentropy::Negentropy<Set>;

constexpr size_t TIMESTAMP = 8, RECORD = TIMESTAMP + 32;

static void read_sealed(const char *path, Set &set) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(std::string("cannot read ") + path);
    const std::string data{std::istreambuf_iterator<char>(file), {}};
    for (size_t at = 0; at + RECORD <= data.size(); at += RECORD) {
        uint64_t timestamp = 0;
        for (size_t byte = TIMESTAMP; byte-- > 0;) timestamp = timestamp << 8 | static_cast<uint8_t>(data[at + byte]);
        set.addItem(timestamp, std::string_view(data).substr(at + TIMESTAMP, RECORD - TIMESTAMP));
    }
    set.seal();
}

static int64_t cpu() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

static void session(Set &ours, Set &theirs, uint64_t limit) {
    const int64_t start = cpu();
    Side client(ours, limit), server(theirs, limit);
    std::vector<std::string> have, need;
    size_t rounds = 0, up = 0, down = 0;
    std::optional<std::string> message = client.initiate();
    while (message) {
        const std::string answer = server.reconcile(*message);
        rounds += 1;
        up += message->size();
        down += answer.size();
        message = client.reconcile(answer, have, need);
    }
    const int64_t taken = cpu() - start;
    std::cout << taken << ',' << rounds << ',' << up << ',' << down << ',' << have.size() << ',' << need.size() << std::endl;
}

int main(int count, char **arguments) {
    if (count != 3) {
        std::cerr << "two files of records are expected\n";
        return 2;
    }
    Set ours, theirs;
    read_sealed(arguments[1], ours);
    read_sealed(arguments[2], theirs);
    for (std::string line; std::getline(std::cin, line);) session(ours, theirs, std::stoull(line));
}
