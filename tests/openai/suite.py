"""What OpenAI's own Python client expects of a server, asked of the one at OPENAI_BASE_URL with the key in OPENAI_API_KEY.

It says nothing of who answers: a llama-server and the stand-in for it must both pass. With OLLAMOON_STORE_EXPECTED=1 the
server has to find in its store what it once computed; the server has two slots and no memory of conversations.
"""

import asyncio
import json
import os
import unittest

import openai
from pydantic import BaseModel

HEADER = "Ollamoon-Cached-Tokens"
PAGE = 256
STORE_EXPECTED = os.environ.get("OLLAMOON_STORE_EXPECTED") == "1"

client = openai.OpenAI(max_retries=0, timeout=120)


def story(about, sentences=46):
    return "".join(f"Here comes {about} number {i}. " for i in range(sentences))


def ask(text, **options):
    """Arguments of a chat of one message."""
    options = {"model": "any", "temperature": 0, "max_tokens": 6} | options
    return {"messages": [{"role": "user", "content": text}]} | options


def chat(text, **options):
    return client.chat.completions.create(**ask(text, **options))


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


class City(BaseModel):
    capital: bool
    size: int


class Chat(unittest.TestCase):
    def test_answer(self):
        got = chat("Say a word.")
        self.assertEqual(got.object, "chat.completion")
        self.assertTrue(got.choices[0].message.content)
        self.assertEqual(got.choices[0].finish_reason, "length")
        self.assertEqual(got.usage.completion_tokens, 6)
        self.assertEqual(got.usage.total_tokens, got.usage.prompt_tokens + 6)

    def test_stream(self):
        whole = chat("Tell of the sea.").choices[0].message.content
        chunks = list(chat("Tell of the sea.", stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), whole)
        self.assertEqual([c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason], ["length"])
        self.assertEqual([c.usage.completion_tokens for c in chunks if c.usage], [6])

    def test_asynchronous_stream(self):
        async def joined():
            async with openai.AsyncOpenAI(max_retries=0, timeout=120) as other:
                stream = await other.chat.completions.create(**ask("Tell of the sea.", stream=True))
                return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])

        self.assertEqual(asyncio.run(joined()), chat("Tell of the sea.").choices[0].message.content)

    def test_stream_left(self):
        with chat("Count to a thousand.", stream=True, max_tokens=500) as stream:
            next(iter(stream))
        self.assertTrue(chat("Say a word.").choices[0].message.content)

    def test_several_answers(self):
        got = chat("Say a word.", n=2)
        self.assertEqual(sorted(c.index for c in got.choices), [0, 1])

    def test_log_probabilities(self):
        for tokens in (
            chat("Say a word.", logprobs=True, top_logprobs=3).choices[0].logprobs.content,
            [t for c in chat("Say a word.", logprobs=True, top_logprobs=3, stream=True)
             if c.choices and c.choices[0].logprobs for t in c.choices[0].logprobs.content],
        ):
            self.assertEqual(len(tokens), 6)
            for t in tokens:
                self.assertEqual(len(t.top_logprobs), 3)
                self.assertEqual(t.top_logprobs[0].token, t.token)
                self.assertLessEqual(t.logprob, 0)

    def test_stop(self):
        got = chat("Say it.", stop=["three four"], max_tokens=20, extra_body={"grammar": 'root ::= "one two three four five"'})
        self.assertEqual(got.choices[0].message.content, "one two ")
        self.assertEqual(got.choices[0].finish_reason, "stop")


class Tools(unittest.TestCase):
    """Tools are told to the model, and a call's result goes back in a history. So small a model makes no calls of its own."""

    def test_told(self):
        for options in ({"tool_choice": "auto"}, {"tool_choice": "none"}):
            got = chat("What is it like in Rome?", tools=[WEATHER], **options)
            self.assertIn(got.choices[0].finish_reason, ["length", "stop", "tool_calls"])
        whole = chat("What is it like in Rome?", tools=[WEATHER]).choices[0].message.content
        chunks = list(chat("What is it like in Rome?", tools=[WEATHER], stream=True))
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), whole)

    def test_result(self):
        call = {"id": "call1", "type": "function", "function": {"name": "weather", "arguments": json.dumps({"city": "Rome"})}}
        messages = ask("What is it like in Rome?")["messages"]
        messages += [{"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call1", "content": "It rains."}]
        got = client.chat.completions.create(model="any", messages=messages, tools=[WEATHER], max_tokens=4, temperature=0)
        self.assertGreater(got.usage.prompt_tokens, 40)

    def test_wrong(self):
        with self.assertRaises(openai.APIStatusError):
            chat("What is it like in Rome?", tools=[{"type": "spoon"}])


class Formats(unittest.TestCase):
    def test_schema(self):
        schema = {
            "type": "object",
            "properties": {"city": {"enum": ["Rome", "Oslo"]}, "rain": {"type": "boolean"}},
            "required": ["city", "rain"],
            "additionalProperties": False,
        }
        got = chat("Where does it rain?", max_tokens=60,
                   response_format={"type": "json_schema", "json_schema": {"name": "place", "schema": schema, "strict": True}})
        value = json.loads(got.choices[0].message.content)
        self.assertIn(value["city"], ["Rome", "Oslo"])
        self.assertIsInstance(value["rain"], bool)

    def test_parsed(self):
        got = client.chat.completions.parse(**ask("Is Rome a capital?", max_tokens=60, response_format=City))
        self.assertIsInstance(got.choices[0].message.parsed, City)


class Completions(unittest.TestCase):
    def test_answer_and_stream(self):
        body = {"model": "any", "prompt": "Once upon a time", "max_tokens": 6, "temperature": 0}
        whole = client.completions.create(**body)
        self.assertEqual(whole.object, "text_completion")
        chunks = list(client.completions.create(stream=True, **body))
        self.assertEqual("".join(c.choices[0].text for c in chunks if c.choices), whole.choices[0].text)

    def test_several_prompts(self):
        got = client.completions.create(model="any", prompt=["Once upon a time", "One two"], max_tokens=3, temperature=0)
        self.assertEqual(sorted(c.index for c in got.choices), [0, 1])

    def test_tokens(self):
        got = client.completions.create(model="any", prompt=[504, 2988, 314], max_tokens=2, temperature=0)
        self.assertEqual(got.usage.prompt_tokens, 3)


class Responses(unittest.TestCase):
    body = {"model": "any", "instructions": "Be brief.", "input": "Say a word.", "max_output_tokens": 6, "temperature": 0}

    def test_answer_and_stream(self):
        whole = client.responses.create(**self.body)
        self.assertTrue(whole.output_text)
        events = list(client.responses.create(stream=True, **self.body))
        self.assertEqual("".join(e.delta for e in events if e.type == "response.output_text.delta"), whole.output_text)
        self.assertEqual(events[-1].type, "response.completed")


class Cached(unittest.TestCase):
    """usage says how much of a prompt was not computed, and where the server has a store, that is what came from it."""

    def check(self, answer, cached, total):
        found = answer.headers.get(HEADER)
        if found is None:
            self.assertFalse(STORE_EXPECTED, "nothing came from the store")
            self.assertLess(cached, PAGE)
            return
        self.assertEqual(found, f"store={cached}")
        self.assertEqual(cached, total // PAGE * PAGE)

    def evict(self, slot):
        chat("Say a word.", extra_body={"id_slot": slot})

    def test_chat(self):
        body = ask(story("badger"), extra_body={"id_slot": 0})
        first = client.chat.completions.create(**body)
        self.assertLess(first.usage.prompt_tokens_details.cached_tokens, PAGE)
        self.evict(0)
        again = client.chat.completions.with_raw_response.create(**body)
        got = again.parse()
        self.assertEqual(got.choices[0].message.content, first.choices[0].message.content)
        self.check(again, got.usage.prompt_tokens_details.cached_tokens, got.usage.prompt_tokens)
        self.evict(0)
        with client.chat.completions.with_streaming_response.create(
                stream=True, stream_options={"include_usage": True}, **body) as again:
            usage = [c.usage for c in again.parse() if c.usage][-1]
            self.check(again, usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens)

    def test_responses(self):
        body = {"model": "any", "input": story("heron"), "max_output_tokens": 2, "temperature": 0, "extra_body": {"id_slot": 1}}
        client.responses.create(**body)
        self.evict(1)
        again = client.responses.with_raw_response.create(**body)
        usage = again.parse().usage
        self.check(again, usage.input_tokens_details.cached_tokens, usage.input_tokens)


class Errors(unittest.TestCase):
    def test_wrong_key(self):
        with self.assertRaises(openai.AuthenticationError) as caught:
            client.with_options(api_key="wrong").chat.completions.create(**ask("Say a word."))
        self.assertEqual(caught.exception.status_code, 401)

    def test_wrong_field(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            chat("Say a word.", response_format={"type": "tapestry"})
        self.assertEqual(caught.exception.type, "invalid_request_error")

    def test_no_messages(self):
        with self.assertRaises(openai.APIStatusError):
            client.chat.completions.create(model="any", messages=[{"role": "user", "content": 7}])

    def test_longer_than_the_context(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            chat(story("ant", 400))
        self.assertEqual(caught.exception.type, "exceed_context_size_error")

    def test_no_such_path(self):
        with self.assertRaises(openai.NotFoundError):
            client.images.generate(model="any", prompt="A cat.")

    def test_no_embeddings(self):
        with self.assertRaises(openai.APIStatusError) as caught:
            client.embeddings.create(model="any", input="A word.")
        self.assertEqual(caught.exception.status_code, 501)


class Models(unittest.TestCase):
    def test_list(self):
        models = list(client.models.list())
        self.assertEqual(len(models), 1)
        self.assertEqual(models[0].object, "model")


class Embeddings(unittest.TestCase):
    """Of a server that was started for them, which answers nothing else."""

    def test_vectors(self):
        got = client.embeddings.create(model="any", input=["The sea.", "A ship."])
        self.assertEqual([d.index for d in got.data], [0, 1])
        self.assertEqual([len(d.embedding) for d in got.data], [576, 576])


def load_tests(loader, _tests, _pattern):
    """All but embeddings, which are asked for by name; what needs empty slots first."""
    chosen = [Cached, Chat, Tools, Formats, Completions, Responses, Errors, Models]
    return unittest.TestSuite(loader.loadTestsFromTestCase(c) for c in chosen)


if __name__ == "__main__":
    unittest.main(verbosity=2)
