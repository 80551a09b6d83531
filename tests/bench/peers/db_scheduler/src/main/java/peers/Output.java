package peers;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** The file of the contract's lines; without a buffer, so that each is one write. */
final class Output {

    private final FileOutputStream file;

    Output(Path path) throws IOException {
        file = new FileOutputStream(path.toFile(), true);
    }

    void ready(String about) {
        write("ready " + about);
    }

    void cannot(String why) {
        write("cannot " + why);
    }

    /** The first thing a handler does. */
    void started(String schedule, long nominalAt) {
        long now = System.currentTimeMillis();
        write(schedule + " " + nominalAt + " " + now);
    }

    private void write(String line) {
        try {
            file.write((line + "\n").getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
