/* SPDX-License-Identifier: Apache-2.0 */
/* libstdc++: streams, strings, containers, algorithms, regular expressions, exceptions, threads, locales. */
#include "workload.h"
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iomanip>
#include <iostream>
#include <list>
#include <locale>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

void streams(int scale) {
    std::ostringstream out;
    for (int i = 0; i < scale * 500; i++)
        out << i << ' ' << std::hex << i * 7 << std::dec << ' ' << std::setprecision(12) << i / 7.0 << ' '
            << std::boolalpha << (i % 2 == 0) << ' ' << std::setw(8) << std::setfill('*') << i << '\n';
    std::string text = out.str();
    std::istringstream in(text);
    std::string line;
    size_t lines = 0, characters = 0;
    double sum = 0;
    while (std::getline(in, line)) {
        std::istringstream fields(line);
        int number;
        std::string hex;
        double value;
        fields >> number >> hex >> value;
        sum += value + number + std::stoi(hex, nullptr, 16);
        lines++;
        characters += line.size();
    }
    std::cout << "streams " << lines << ' ' << characters << ' ' << std::setprecision(17) << sum << '\n';
}

void containers(int scale) {
    std::mt19937 random(12345);
    std::map<std::string, int> sorted;
    std::unordered_map<int, std::string> hashed;
    std::set<int> distinct;
    std::list<int> linked;
    for (int i = 0; i < scale * 1000; i++) {
        int value = static_cast<int>(random() % 5000);
        sorted["key" + std::to_string(value)] += i;
        hashed[value] += static_cast<char>('a' + value % 26);
        distinct.insert(value);
        linked.push_front(value);
    }
    linked.sort();
    linked.unique();
    size_t letters = 0;
    for (const auto &entry : hashed)
        letters += entry.second.size();
    std::vector<std::string> words;
    for (const auto &entry : sorted)
        words.push_back(entry.first);
    std::sort(words.begin(), words.end(), [](const std::string &a, const std::string &b) {
        return a.size() != b.size() ? a.size() < b.size() : a > b;
    });
    std::stable_partition(words.begin(), words.end(), [](const std::string &w) { return w.back() % 2 == 0; });
    std::cout << "containers " << sorted.size() << ' ' << letters << ' ' << distinct.size() << ' ' << linked.size()
              << ' ' << words.front() << ' ' << words.back() << '\n';
}

void expressions(int scale) {
    std::regex pattern("(\\w+)@(\\w+)\\.(com|org)", std::regex::icase);
    std::string text = "mail Someone@Example.com or other@host.org, not bad@host.net";
    int found = 0;
    for (int i = 0; i < scale * 5; i++)
        for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
            found += static_cast<int>((*it)[2].length());
    std::cout << "regex " << found << ' ' << std::regex_replace(text, pattern, "<$1 at $2>") << '\n';
    try {
        std::regex bad("(unclosed");
    } catch (const std::regex_error &e) {
        std::cout << "regex error " << (e.code() == std::regex_constants::error_paren) << '\n';
    }
}

struct counted {
    static int alive;
    counted() {
        alive++;
    }
    counted(const counted &) {
        alive++;
    }
    ~counted() {
        alive--;
    }
};
int counted::alive = 0;

int throw_deep(int depth, int kind) {
    counted here;
    if (depth > 0)
        return throw_deep(depth - 1, kind) + 1;
    switch (kind) {
    case 0:
        throw std::runtime_error("runtime");
    case 1:
        return std::stoi("no number");
    case 2:
        return std::vector<int>(3).at(7);
    case 3:
        throw 42;
    default:
        throw std::make_unique<int>(7);
    }
}

void exceptions(int scale) {
    std::map<std::string, int> caught;
    for (int i = 0; i < scale * 200; i++) {
        try {
            try {
                throw_deep(i % 20, i % 5);
            } catch (const std::logic_error &) {
                caught["logic"]++;
                throw;
            }
        } catch (const std::exception &e) {
            caught[e.what()]++;
        } catch (int value) {
            caught[std::to_string(value)]++;
        } catch (...) {
            caught["unknown"]++;
        }
    }
    for (const auto &entry : caught)
        std::cout << "caught " << entry.first << ": " << entry.second << '\n';
    try {
        try {
            throw std::runtime_error("inner");
        } catch (...) {
            std::throw_with_nested(std::logic_error("outer"));
        }
    } catch (const std::exception &e) {
        std::cout << "nested " << e.what();
        try {
            std::rethrow_if_nested(e);
        } catch (const std::exception &inner) {
            std::cout << ' ' << inner.what();
        }
    }
    std::cout << " alive " << counted::alive << '\n';
}

void threads(int scale) {
    std::mutex lock;
    std::condition_variable changed;
    std::vector<int> queue;
    bool finished = false;
    long sum = 0;
    std::thread consumer([&] {
        std::unique_lock<std::mutex> held(lock);
        while (!finished || !queue.empty()) {
            changed.wait(held, [&] { return finished || !queue.empty(); });
            for (int value : queue)
                sum += value;
            queue.clear();
        }
    });
    std::vector<std::thread> producers;
    for (int p = 0; p < 4; p++)
        producers.emplace_back([&, p] {
            for (int i = 0; i < scale * 50; i++) {
                std::lock_guard<std::mutex> held(lock);
                queue.push_back(i * (p + 1));
                changed.notify_one();
            }
        });
    for (auto &t : producers)
        t.join();
    {
        std::lock_guard<std::mutex> held(lock);
        finished = true;
    }
    changed.notify_one();
    consumer.join();
    auto future = std::async(std::launch::async, [] {
        std::vector<int> values(1000);
        std::iota(values.begin(), values.end(), 1);
        return std::accumulate(values.begin(), values.end(), 0);
    });
    auto failing = std::async(std::launch::async, []() -> int { throw std::runtime_error("from a thread"); });
    std::cout << "threads " << sum << ' ' << future.get();
    try {
        failing.get();
    } catch (const std::exception &e) {
        std::cout << ' ' << e.what() << '\n';
    }
}

void others() {
    std::locale c_locale("C");
    std::cout << std::use_facet<std::ctype<char>>(c_locale).toupper('x') << ' '
              << std::filesystem::path("/a/b/../c.txt").lexically_normal().string() << ' '
              << std::filesystem::exists("/proc/self") << '\n';
    std::function<int(int)> twice = [](int x) { return 2 * x; };
    std::shared_ptr<std::string> shared = std::make_shared<std::string>("shared");
    std::weak_ptr<std::string> weak = shared;
    std::cout << twice(21) << ' ' << *shared << ' ' << weak.use_count() << '\n';
    shared.reset();
    std::cout << weak.expired() << ' ' << std::string(5000, 'x').find('y') << std::endl;
}

} // namespace

void workload_cpp(int scale) {
    streams(scale);
    containers(scale);
    expressions(scale);
    exceptions(scale);
    threads(scale);
    others();
}
